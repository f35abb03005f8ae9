-- The argument by whose value a job's bucket is found: by its name, else by its place among the positional ones [F1]. NULL:
-- there is none. Callers: claim_wants. Lock: none.
CREATE OR REPLACE FUNCTION windlass.need_value(p_payload json, p_argument text, p_place int) RETURNS json
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_argument IS NULL THEN NULL
                WHEN json_typeof(p_payload) = 'array' THEN p_payload -> p_place
                ELSE coalesce(p_payload -> p_argument, p_payload -> '*' -> p_place) END
$$;
