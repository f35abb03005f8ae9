-- Moves a job to the dead letters, with its payload and its last 32 failures [O4].
-- Callers: finish_others, give_back. Lock: none beyond the row it writes.
CREATE OR REPLACE FUNCTION windlass.bury_job(r windlass.ready, p_deaths int, p_reason text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint := windlass.job_of(r);
BEGIN
    INSERT INTO windlass.dead (id, enqueued_at, died_at, queue, priority, task, payload, options, attempt, deaths,
                               reason, errors, error)
    SELECT v_id, windlass.enqueued_of(r), windlass.now(), l.queue, l.priority, r.task, r.payload, r.options, r.attempt,
           p_deaths, p_reason, f.errors, coalesce(f.errors -> -1 ->> 'type', '')
      FROM windlass.lane l
     CROSS JOIN LATERAL (SELECT windlass.failures_of(v_id) AS errors OFFSET 0) AS f
     WHERE l.id = r.lane;
END $$;
