-- Moves a job that waits in deferred to the dead letters. Callers: follow. Lock: its row, held by the caller.
CREATE OR REPLACE FUNCTION windlass.bury_deferred(d windlass.deferred, p_reason text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_errors json := windlass.failures_of(d.id);
BEGIN
    DELETE FROM windlass.deferred x WHERE x.id = d.id;
    INSERT INTO windlass.dead (id, enqueued_at, died_at, queue, priority, task, payload, options, attempt, deaths,
                               reason, errors, error)
    VALUES (d.id, d.enqueued_at, windlass.now(), d.queue, d.priority, d.task, d.payload, d.options, d.attempt, d.deaths,
            p_reason, v_errors, coalesce(v_errors -> -1 ->> 'type', ''));
    PERFORM windlass.settle(ARRAY[d.id], NULL, NULL, 'dead');
END $$;
