-- Ends one job that waits somewhere, as cancelled, deleted or replaced. True if it did.
-- Callers: cancel_job, delete, replace_step, follow, end_waiting itself. Lock: the lane of the job, or its row; ACCESS SHARE on
-- claim first, as in finish. Of a job that has yet to replace another: its key, which a producer may hold, its row, then the
-- lanes of both.
-- A scheduled or held job has no place in the logs; to be shown as cancelled it is offered and taken at once. A job
-- may be on its way from one place to the next (promoted, claimed, retried) while a lock is waited for; then it is
-- looked for again; one that has become a parent waits nowhere.
-- A job that has yet to replace another does so first: who ends it wants neither [E6]. Where that one has begun, it gets the key
-- back. It may end at this moment, having no key to free: settle_rest looks after that.
CREATE OR REPLACE FUNCTION windlass.end_waiting(p_job bigint, p_kind text) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    d      record;
    p      record;
    v_lane int;
    v_twin bigint;
BEGIN
    PERFORM windlass.require_read_committed();
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    FOR try IN 1..10 LOOP
        SELECT * INTO p FROM windlass.locate(p_job);
        IF FOUND THEN
            IF p.claim IS NOT NULL THEN
                RETURN false;
            ELSIF windlass.take_ahead((p.ready).lane, ARRAY[(p.ready).seq], p_kind) <> '{}' THEN
                PERFORM windlass.settle(ARRAY[p_job], NULL, NULL, p_kind);
                RETURN true;
            END IF;
            CONTINUE;
        END IF;
        IF EXISTS (SELECT FROM windlass.deferred x WHERE x.id = p_job AND x.replaces IS NOT NULL) THEN
            PERFORM FROM windlass.unique_key k WHERE k.job = p_job FOR UPDATE;
            SELECT x.replaces INTO v_twin FROM windlass.deferred x WHERE x.id = p_job AND x.replaces IS NOT NULL FOR UPDATE;
            IF FOUND THEN
                PERFORM windlass.lock_lanes_of(ARRAY[v_twin, p_job]);
                PERFORM windlass.end_waiting(v_twin, 'replaced');
            END IF;
        END IF;
        WITH gone AS (DELETE FROM windlass.deferred WHERE id = p_job
                      RETURNING queue, priority, task, payload, options, attempt, deaths, enqueued_at, replaces),
             freed AS (DELETE FROM windlass.held WHERE id = p_job
                       RETURNING queue, priority, task, payload, options, attempt, deaths, enqueued_at, NULL::bigint)
        SELECT * INTO d FROM (SELECT * FROM gone UNION ALL SELECT * FROM freed) AS x;
        IF FOUND THEN
            IF p_kind = 'cancelled' THEN
                v_lane := windlass.lane_sure(d.queue, d.priority);
                PERFORM windlass.take_ahead(
                    v_lane,
                    windlass.offer(v_lane, 1, ARRAY[d.task], ARRAY[d.payload::text], ARRAY[d.options::text], ARRAY[p_job],
                                   ARRAY[d.attempt], ARRAY[d.deaths], ARRAY[d.enqueued_at]),
                    p_kind);
            END IF;
            IF d.replaces IS NOT NULL AND windlass.is_unfinished(d.replaces) THEN
                UPDATE windlass.unique_key k SET job = d.replaces, rerun = NULL, touched = NULL WHERE k.job = p_job;
                INSERT INTO windlass.unsettled (job) VALUES (d.replaces) ON CONFLICT DO NOTHING;
            END IF;
            PERFORM windlass.settle(ARRAY[p_job], NULL, NULL, p_kind);
            RETURN true;
        ELSIF NOT windlass.is_unfinished(p_job) OR EXISTS (SELECT FROM windlass.parent x WHERE x.id = p_job) THEN
            RETURN false;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'job % moves too fast to be ended', p_job USING ERRCODE = 'serialization_failure',
        HINT = 'Try again.';
END $$;
