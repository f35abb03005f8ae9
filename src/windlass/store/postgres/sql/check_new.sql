-- Refuses a new job by what is not its name, payload or options [E4]. Callers: enqueue_one, enqueue_mixed. Lock: none.
CREATE OR REPLACE FUNCTION windlass.check_new(
    p_priority smallint, p_delay float8, p_run_at timestamptz, p_on_conflict text, p_idempotency_key text, p_unique_key text)
RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_on_conflict IS NULL OR p_on_conflict NOT IN ('skip', 'replace', 'reject') THEN
        RAISE EXCEPTION 'on_conflict must be skip, replace or reject' USING ERRCODE = 'WL005';
    ELSIF p_priority IS NULL OR p_priority NOT BETWEEN 0 AND 3 THEN
        RAISE EXCEPTION 'priority must be urgent, high, normal or low' USING ERRCODE = 'WL005';
    ELSIF p_run_at NOT BETWEEN '1970-01-01' AND '2200-01-01' OR p_delay NOT BETWEEN 0 AND 3155760000 THEN
        RAISE EXCEPTION 'the time to run at is out of range' USING ERRCODE = 'WL005',
            HINT = 'Use a time between the years 1970 and 2200, or a delay of up to 100 years.';
    ELSIF octet_length(p_idempotency_key) > 1020 OR octet_length(p_unique_key) > 1020 THEN
        RAISE EXCEPTION 'a key is longer than 1020 bytes' USING ERRCODE = 'WL005';
    END IF;
END $$;
