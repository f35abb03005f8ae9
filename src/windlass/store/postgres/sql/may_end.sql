-- Takes the locks that end_waiting needs for a job, by trying only; false: somebody holds one of them, so leave the job for later
-- [S2]. True as well for one that waits nowhere. Callers: replace_step, follow. Lock: the lane in which the job waits; else its row,
-- and the lane in which it would be shown.
CREATE OR REPLACE FUNCTION windlass.may_end(p_job bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    d      record;
    v_lane int;
BEGIN
    PERFORM windlass.require_read_committed();
    SELECT (p.ready).lane INTO v_lane FROM windlass.locate(p_job) AS p WHERE p.claim IS NULL;
    IF NOT FOUND THEN
        SELECT x.queue, x.priority INTO d FROM windlass.deferred x WHERE x.id = p_job FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            SELECT x.queue, x.priority INTO d FROM windlass.held x WHERE x.id = p_job FOR UPDATE SKIP LOCKED;
        END IF;
        IF NOT FOUND THEN
            RETURN NOT EXISTS (SELECT FROM windlass.deferred x WHERE x.id = p_job)
               AND NOT EXISTS (SELECT FROM windlass.held x WHERE x.id = p_job);
        END IF;
        v_lane := windlass.lane_try(d.queue, d.priority);
    END IF;
    RETURN v_lane IS NOT NULL AND pg_try_advisory_xact_lock(windlass.lock_space(), v_lane);
END $$;
