-- Gives the jobs of a task that run already the pass of its limit, where that is new: they count, too [F3]. Not those of p_but,
-- a claim that is judged at this moment. Callers: admit_gate, claim_gated.
-- Lock: ACCESS SHARE on claim, as in finish; the caller holds the gate's, so that nobody lets a job through before.
-- It is done by who first looks at the gate after the limit was committed, for only then is every claim either to be seen here,
-- or sees the limit itself when it is committed: see claim_recheck.
CREATE OR REPLACE FUNCTION windlass.count_running(p_task text, p_but bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM windlass.uncounted_task u WHERE u.task = p_task) THEN
        RETURN;
    END IF;
    DELETE FROM windlass.uncounted_task u WHERE u.task = p_task;
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    -- One that was counted while its claim put it aside would wait for its own slot.
    DELETE FROM windlass.pass p
     WHERE p.gate = 'task:' || p_task AND EXISTS (SELECT FROM windlass.held h WHERE h.id = p.job AND h.gate = p.gate OFFSET 0);
    INSERT INTO windlass.pass (gate, job, need, turn, enqueued_at, at)
    SELECT 'task:' || p_task, windlass.job_of(h.ready), 1, nextval('windlass.held_turn'), windlass.enqueued_of(h.ready),
           windlass.now()
      FROM windlass.worker_life w CROSS JOIN LATERAL windlass.holdings(w.id) AS h
     WHERE NOT w.settled AND (h.ready).task = p_task AND h.claim IS DISTINCT FROM p_but
    ON CONFLICT DO NOTHING;
END $$;
