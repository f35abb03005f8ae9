-- Refuses a malformed task or queue name [E4]. Callers: enqueue_many, enqueue_mixed, enqueue_one, declare_lane, set_queue,
-- set_task, check_budget, throttle. Lock: none.
CREATE OR REPLACE FUNCTION windlass.check_name(p_what text, p_name text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_name IS NULL OR p_name !~ '^[a-z0-9_.-]{1,64}$' THEN
        RAISE EXCEPTION '% name % is malformed', p_what, quote_nullable(left(p_name, 80))
            USING ERRCODE = 'WL005', HINT = 'Use 1 to 64 characters of a-z, 0-9, "_", "." and "-".';
    END IF;
END $$;
