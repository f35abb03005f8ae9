-- Takes an idempotency key for a job, or answers with the job that has it [E7].
-- Callers: enqueue_one. Lock: the key's row. A concurrent holder is waited for; a forgotten key is taken over.
CREATE OR REPLACE FUNCTION windlass.remember(p_key text, p_job bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_job bigint;
BEGIN
    INSERT INTO windlass.idempotency AS i (key, job, at) VALUES (p_key, p_job, windlass.now())
    ON CONFLICT (key) DO UPDATE SET job = excluded.job, at = excluded.at
     WHERE i.at <= windlass.now() - make_interval(secs => (SELECT idempotency_retention FROM windlass.meta))
    RETURNING i.job INTO v_job;
    IF v_job IS NULL THEN
        SELECT i.job INTO v_job FROM windlass.idempotency i WHERE i.key = p_key;
    END IF;
    RETURN v_job;
END $$;
