-- Refuses a payload that is too large or holds a NUL [E4]. Callers: enqueue_many, enqueue_mixed, enqueue_one. Lock: none.
-- An escaped backslash may stand before u0000, so only an odd number of them makes it a NUL.
CREATE OR REPLACE FUNCTION windlass.check_payload(p_payload text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF octet_length(p_payload) > 1048576 THEN
        RAISE EXCEPTION 'the payload has % bytes, more than 1 MiB', octet_length(p_payload)
            USING ERRCODE = 'WL007', HINT = 'Store the data elsewhere and enqueue a reference to it.';
    END IF;
    IF p_payload IS NULL OR json_typeof(p_payload::json) NOT IN ('object', 'array') THEN
        RAISE EXCEPTION 'the payload must be a JSON object or array' USING ERRCODE = 'WL005';
    END IF;
    IF position(E'\\u0000' IN p_payload) > 0 AND p_payload ~ E'(^|[^\\\\])(\\\\\\\\)*\\\\u0000' THEN
        RAISE EXCEPTION 'the payload holds a NUL character' USING ERRCODE = 'WL005';
    END IF;
END $$;
