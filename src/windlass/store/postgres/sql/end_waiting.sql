-- Ends one job that waits somewhere, as cancelled or deleted. True if it did.
-- Callers: cancel, delete_job. Lock: the lane of the job, or its row.
-- A scheduled or held job has no place in the logs; to be shown as cancelled it is offered and taken at once.
CREATE OR REPLACE FUNCTION windlass.end_waiting(p_job bigint, p_kind text) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    d      record;
    p      record;
    v_lane int;
BEGIN
    SELECT * INTO p FROM windlass.locate(p_job);
    IF FOUND THEN
        IF p.claim IS NOT NULL OR windlass.take_ahead((p.ready).lane, ARRAY[(p.ready).seq], p_kind) = '{}' THEN
            RETURN false;
        END IF;
        PERFORM windlass.settle(ARRAY[p_job], NULL, NULL);
        RETURN true;
    END IF;
    WITH gone AS (DELETE FROM windlass.deferred WHERE id = p_job
                  RETURNING queue, priority, task, payload, options, attempt, deaths, enqueued_at),
         freed AS (DELETE FROM windlass.held WHERE id = p_job
                   RETURNING queue, priority, task, payload, options, attempt, 0::smallint, enqueued_at)
    SELECT * INTO d FROM (SELECT * FROM gone UNION ALL SELECT * FROM freed) AS x;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF p_kind = 'cancelled' THEN
        v_lane := windlass.lane_sure(d.queue, d.priority);
        PERFORM windlass.take_ahead(
            v_lane,
            windlass.offer(v_lane, 1, ARRAY[d.task], ARRAY[d.payload::text], ARRAY[d.options::text], ARRAY[p_job],
                           ARRAY[d.attempt], ARRAY[d.deaths], ARRAY[d.enqueued_at]),
            p_kind);
    END IF;
    PERFORM windlass.settle(ARRAY[p_job], NULL, NULL);
    RETURN true;
END $$;
