-- Gives the jobs of a task that run already the pass of its limit, which is new: they count, too [F3]. Callers: set_task.
-- Lock: none beyond the rows it writes.
CREATE OR REPLACE FUNCTION windlass.count_running(p_task text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO windlass.pass (gate, job, need, turn, enqueued_at, at)
    SELECT 'task:' || p_task, windlass.job_of(h.ready), 1, nextval('windlass.held_turn'), windlass.enqueued_of(h.ready),
           windlass.now()
      FROM windlass.worker_life w CROSS JOIN LATERAL windlass.holdings(w.id) AS h
     WHERE NOT w.settled AND (h.ready).task = p_task
    ON CONFLICT DO NOTHING;
END $$;
