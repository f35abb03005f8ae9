-- The records that a checkpoint speaks of: the whole number n, where its data is an object that has one; else 0.
-- Callers: note_ends, saved_of, the view job_part. Lock: none.
CREATE OR REPLACE FUNCTION windlass.records_of(p_data json) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN json_typeof(p_data) = 'object' AND json_typeof(p_data -> 'n') = 'number'
                     AND p_data ->> 'n' ~ '^-?[0-9]{1,18}$'
                THEN (p_data ->> 'n')::bigint ELSE 0 END
$$;
