-- The key of the bucket that a job draws from, by the value of the argument that need_value found: '' where there is none [F1].
-- Callers: claim_wants. Lock: none. bucket_key in windlass.store.budgets says the same: a text is its own key, other values are
-- keyed by their JSON as it was sent, and no more than 255 characters count.
CREATE OR REPLACE FUNCTION windlass.bucket_key(p_value json) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_value IS NULL OR json_typeof(p_value) = 'null' THEN ''
                WHEN json_typeof(p_value) = 'string' THEN left(p_value #>> '{}', 255)
                ELSE left(btrim(p_value::text, E' \t\n\r'), 255) END
$$;
