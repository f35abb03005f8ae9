-- Takes jobs that have the pass of a gate out of the lanes of these queues, where nobody runs them, so that others get their slots; how
-- many [F3]. They stand in the line of their queue until it is open: see admit_shut. Callers: admit_gate, where the gate is full.
-- Lock: the gate's, held by the caller; the lanes and the rows it moves, by trying only; ACCESS SHARE on claim,
-- as in finish.
-- For the log their attempts have ended as `held`, claimed ahead by worker 0 [rule 13].
CREATE OR REPLACE FUNCTION windlass.shut_out(p_gate text, p_queues text[]) RETURNS int
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    j      record;
    v_done int := 0;
BEGIN
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    FOR j IN SELECT p.job, l.ready, n.queue, n.priority
               FROM (SELECT x.job FROM windlass.pass x WHERE x.gate = p_gate LIMIT 100) AS p
              CROSS JOIN LATERAL windlass.locate(p.job) AS l
               JOIN windlass.lane n ON n.id = (l.ready).lane
              WHERE l.claim IS NULL AND n.queue = ANY (p_queues) LOOP
        CONTINUE WHEN NOT pg_try_advisory_xact_lock(windlass.lock_space(), (j.ready).lane);
        CONTINUE WHEN windlass.take_ahead((j.ready).lane, ARRAY[(j.ready).seq], 'held') = '{}';
        PERFORM windlass.drop_passes(ARRAY[j.job], 'slots', false);
        INSERT INTO windlass.held (id, since, enqueued_at, queue, priority, attempt, deaths, gate, task, payload, options)
        VALUES (j.job, (j.ready).offered_at, windlass.enqueued_of(j.ready), j.queue, j.priority, (j.ready).attempt,
                (j.ready).deaths, 'shut:' || j.queue, (j.ready).task, (j.ready).payload, (j.ready).options);
        v_done := v_done + 1;
    END LOOP;
    -- Those who wait for the turn of their fair key have the pass, too.
    FOR j IN SELECT h.id, h.queue FROM windlass.pass p JOIN windlass.held h ON h.id = p.job
              WHERE p.gate = p_gate AND h.gate IS NULL AND h.queue = ANY (p_queues) LIMIT 100 FOR UPDATE OF h SKIP LOCKED LOOP
        PERFORM windlass.drop_passes(ARRAY[j.id], 'slots', false);
        UPDATE windlass.held h SET gate = 'shut:' || j.queue, fair_key = NULL WHERE h.id = j.id;
        v_done := v_done + 1;
    END LOOP;
    RETURN v_done;
END $$;
