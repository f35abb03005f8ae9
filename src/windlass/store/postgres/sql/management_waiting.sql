-- Ending jobs that wait, one or many at once, as cancelled, deleted or replaced; deleting many that have
-- ended; and where jobs stand.

-- ==== Where jobs are ====

-- Where jobs are in the logs: locate for many, of those that are neither a parent nor a part. claimed: it
-- runs or has run; ended: for good.
-- Callers: the store, before it manages many. May call: worker. Plan: generic, pinned, nested. Lock: ACCESS
-- SHARE on claim, as in finish. It decides nothing: what waits now may run a moment later, so the function
-- that ends it checks again. What has ended stays ended.
CREATE OR REPLACE FUNCTION windlass.places_of(p_jobs bigint[])
RETURNS TABLE (job bigint, lane int, seq bigint, claimed boolean, ended boolean)
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM windlass.require_read_committed();
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    RETURN QUERY
    WITH spots AS MATERIALIZED (
        SELECT array_agg(x.lane) AS lanes, array_agg(x.seq) AS seqs
          FROM unnest(p_jobs) AS j (id)
         CROSS JOIN LATERAL (
            SELECT r.lane, r.seq FROM windlass.ready r
             WHERE r.lane = (j.id >> 44)::int AND r.seq = j.id & :ids.MAX_SEQ AND r.id IS NULL
             UNION ALL
            SELECT r.lane, r.seq FROM windlass.ready r WHERE r.id = j.id OFFSET 0) AS x
         WHERE NOT EXISTS (SELECT FROM windlass.part t WHERE t.job = j.id OFFSET 0)
           AND NOT EXISTS (SELECT FROM windlass.parent p WHERE p.id = j.id OFFSET 0))
    SELECT DISTINCT ON (g.id) g.id, g.lane, g.seq, g.claim IS NOT NULL, g.finished_at IS NOT NULL
      FROM spots s CROSS JOIN LATERAL windlass.list_judged(s.lanes, s.seqs, NULL) AS g
     ORDER BY g.id, g.finished_at IS NULL DESC, g.seq DESC;
END $$;

-- Whether a job has yet to end.
-- Callers: change, take_unique_key, rotation_move_failures, cancel_job, delete, end_waiting, expire,
-- replace_step, settle_rest, sweep_passes, fire_schedule. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.is_unfinished(p_job bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM windlass.deferred d WHERE d.id = p_job)
        OR EXISTS (SELECT FROM windlass.held h WHERE h.id = p_job)
        OR EXISTS (SELECT FROM windlass.parent p WHERE p.id = p_job AND p.state = 'waiting')
        OR EXISTS (SELECT FROM windlass.locate(p_job) l WHERE l.kind IS NULL)
$$;

-- ==== Deleting many jobs that have ended ====

-- Removes those of some jobs that are dead, and returns them.
-- Callers: the store. May call: worker. Plan: generic, pinned. Lock: their rows, without waiting.
CREATE OR REPLACE FUNCTION windlass.delete_dead(p_jobs bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_ids bigint[];
BEGIN
    PERFORM windlass.require_read_committed();
    v_ids := ARRAY(SELECT d.id FROM windlass.dead d WHERE d.id = ANY (p_jobs) FOR UPDATE SKIP LOCKED);
    DELETE FROM windlass.dead d WHERE d.id = ANY (v_ids);
    PERFORM windlass.drop_steps(v_ids);
    RETURN v_ids;
END $$;

-- Removes jobs that have ended for good from the ready log, by their positions, and returns them; what a
-- rotation has moved at this moment is left.
-- Callers: the store, with positions from places_of. May call: worker. Plan: pinned. Lock: the rows it
-- removes. No claim will ever look at these rows again. One statement for each: joined, the planner may walk
-- a lane [rule 8].
CREATE OR REPLACE FUNCTION windlass.delete_ended(p_lanes int[], p_seqs bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_job  bigint;
    v_jobs bigint[] := '{}';
BEGIN
    FOR i IN 1..coalesce(cardinality(p_seqs), 0) LOOP
        DELETE FROM windlass.ready r WHERE r.lane = p_lanes[i] AND r.seq = p_seqs[i]
     RETURNING windlass.job_of(r) INTO v_job;
        IF FOUND THEN
            v_jobs := v_jobs || v_job;
        END IF;
    END LOOP;
    PERFORM windlass.drop_steps(v_jobs);
    RETURN v_jobs;
END $$;

-- ==== Ending jobs that wait ====

-- Ends one job that waits somewhere, as cancelled, deleted or replaced. True if it did.
-- Callers: cancel_job, cancel_put_off, delete, replace_step, follow, end_waiting itself. May call: worker.
-- Plan: pinned. Lock: the lane of the job, or its row; ACCESS SHARE on claim first, as in finish. Of a job
-- that has yet to replace another: its key, which a producer may hold, its row, then the lanes of both.
-- A scheduled or held job has no place in the logs; to be shown as cancelled it is offered and taken at once.
-- While this waits for a lock, the job may move on (be promoted, claimed, retried); then it is looked up
-- again. A job that has become a parent waits nowhere.
-- A job that has yet to replace another does so first, since neither is wanted any more [E6]. If the other
-- has started, it gets the key back; in case it ends just now, without a key to free, settle_rest frees it.
CREATE OR REPLACE FUNCTION windlass.end_waiting(p_job bigint, p_kind text) RETURNS boolean
LANGUAGE plpgsql AS $$
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
        IF EXISTS (SELECT FROM windlass.deferred x WHERE x.id = p_job AND x.replaces IS NOT NULL
                    UNION ALL
                   SELECT FROM windlass.held x WHERE x.id = p_job AND x.replaces IS NOT NULL) THEN
            PERFORM FROM windlass.unique_key k WHERE k.job = p_job FOR UPDATE;
            SELECT x.replaces INTO v_twin FROM windlass.deferred x
             WHERE x.id = p_job AND x.replaces IS NOT NULL FOR UPDATE;
            IF NOT FOUND THEN
                SELECT x.replaces INTO v_twin FROM windlass.held x
                 WHERE x.id = p_job AND x.replaces IS NOT NULL FOR UPDATE;
            END IF;
            IF FOUND THEN
                PERFORM windlass.lock_lanes_of(ARRAY[v_twin, p_job]);
                PERFORM windlass.end_waiting(v_twin, 'replaced');
            END IF;
        END IF;
        WITH gone AS (DELETE FROM windlass.deferred WHERE id = p_job
                      RETURNING queue, priority, task, payload, options, attempt, deaths, enqueued_at,
                      replaces, NULL AS gate),
             freed AS (DELETE FROM windlass.held WHERE id = p_job
                       RETURNING queue, priority, task, payload, options, attempt, deaths, enqueued_at,
                       replaces, gate)
        SELECT * INTO d FROM (SELECT * FROM gone UNION ALL SELECT * FROM freed) AS x;
        IF FOUND THEN
            IF p_kind = 'cancelled' THEN
                v_lane := windlass.ensure_lane(d.queue, d.priority, windlass.abilities_of(d.options));
                PERFORM windlass.take_ahead(
                    v_lane,
                    windlass.offer(v_lane, 1, ARRAY[d.task], ARRAY[d.payload::text], ARRAY[d.options::text],
                                   ARRAY[p_job], ARRAY[d.attempt], ARRAY[d.deaths], ARRAY[d.enqueued_at]),
                    p_kind);
            END IF;
            IF d.replaces IS NOT NULL AND windlass.is_unfinished(d.replaces) THEN
                UPDATE windlass.unique_key k SET job = d.replaces, rerun = NULL, touched = NULL
                 WHERE k.job = p_job;
                INSERT INTO windlass.unsettled (job) VALUES (d.replaces) ON CONFLICT DO NOTHING;
            END IF;
            IF d.replaces IS NOT NULL AND d.gate IS NOT NULL THEN
                PERFORM windlass.mark_gates_changed(ARRAY[d.gate], true);  -- others waited behind it
            END IF;
            PERFORM windlass.settle(ARRAY[p_job], NULL, NULL, p_kind);
            RETURN true;
        ELSIF NOT windlass.is_unfinished(p_job) OR EXISTS (SELECT FROM windlass.parent x
                                                            WHERE x.id = p_job) THEN
            RETURN false;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'job % moves too fast to be ended', p_job USING ERRCODE = 'serialization_failure',
        HINT = 'Try again.';
END $$;

-- Takes the locks that end_waiting needs for a job, without waiting; false: somebody holds one of them, so
-- leave the job for later [S2]. True as well for one that waits nowhere.
-- Callers: cancel_put_off, replace_step, follow. May call: worker. Plan: the caller's. Lock: the lane in
-- which the job waits; else its row, and the lane in which it would be shown.
CREATE OR REPLACE FUNCTION windlass.try_lock_waiting(p_job bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    d      record;
    v_lane int;
BEGIN
    PERFORM windlass.require_read_committed();
    SELECT (p.ready).lane INTO v_lane FROM windlass.locate(p_job) AS p WHERE p.claim IS NULL;
    IF NOT FOUND THEN
        SELECT x.queue, x.priority, x.options INTO d FROM windlass.deferred x WHERE x.id = p_job
           FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            SELECT x.queue, x.priority, x.options INTO d FROM windlass.held x WHERE x.id = p_job
               FOR UPDATE SKIP LOCKED;
        END IF;
        IF NOT FOUND THEN
            RETURN NOT EXISTS (SELECT FROM windlass.deferred x WHERE x.id = p_job)
               AND NOT EXISTS (SELECT FROM windlass.held x WHERE x.id = p_job);
        END IF;
        v_lane := windlass.try_lane(d.queue, d.priority, windlass.abilities_of(d.options));
    END IF;
    RETURN v_lane IS NOT NULL AND pg_try_advisory_xact_lock(windlass.lock_space(), v_lane);
END $$;

-- Takes the locks of all lanes that some jobs wait in, in the order of the lanes, so that two who do this
-- cannot deadlock.
-- Callers: cancel_parent, end_waiting. May call: worker. Plan: indexed. Lock: those lanes.
CREATE OR REPLACE FUNCTION windlass.lock_lanes_of(p_jobs bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_lane int;
BEGIN
    FOR v_lane IN
        SELECT (p.ready).lane AS lane FROM unnest(p_jobs) AS j CROSS JOIN LATERAL windlass.locate(j) AS p
         WHERE p.claim IS NULL
         UNION
        SELECT windlass.lane_for(w.queue, w.priority, windlass.abilities_of(w.options))
          FROM (SELECT d.queue, d.priority, d.options FROM windlass.deferred d WHERE d.id = ANY (p_jobs)
                 UNION ALL
                SELECT h.queue, h.priority, h.options FROM windlass.held h WHERE h.id = ANY (p_jobs)) AS w
         ORDER BY lane
    LOOP
        CONTINUE WHEN v_lane IS NULL;
        PERFORM windlass.lane_lock(v_lane);
    END LOOP;
END $$;

-- Ends jobs that wait in no lane (scheduled, retrying, held aside), as cancelled, expired or deleted. Returns
-- those it ended. Jobs that are to replace others are left to end_waiting.
-- Callers: the store, end_expired, with jobs that are no parts. May call: worker. Plan: generic, pinned,
-- nested. Lock: ACCESS SHARE on claim, as in finish; the lanes of these jobs, in order; then their rows,
-- without waiting.
-- To be shown as cancelled they are offered and taken at once, as in end_waiting, each lane's in one go.
CREATE OR REPLACE FUNCTION windlass.end_aside(p_jobs bigint[], p_kind text) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    g       record;
    v_plain bigint[];
    v_lanes int[];
    v_late  bigint[];
    v_held  bigint[];
    v_rows  windlass.held[];
BEGIN
    PERFORM windlass.require_read_committed();
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    v_plain := ARRAY(SELECT u.id FROM unnest(p_jobs) AS u (id)
                      WHERE NOT EXISTS (SELECT FROM windlass.part t WHERE t.job = u.id OFFSET 0)
                        AND NOT EXISTS (SELECT FROM windlass.parent p WHERE p.id = u.id OFFSET 0));
    IF p_kind IN ('cancelled', 'expired') THEN
        v_lanes := ARRAY(SELECT windlass.ensure_lane(w.queue, w.priority, w.abilities)
                           FROM (SELECT d.* FROM unnest(v_plain) AS u (id)
                                  CROSS JOIN LATERAL (SELECT x.queue, x.priority,
                                                             windlass.abilities_of(x.options) AS abilities
                                                        FROM windlass.deferred x
                                                       WHERE x.id = u.id AND x.replaces IS NULL OFFSET 0) AS d
                                  UNION
                                 SELECT h.* FROM unnest(v_plain) AS u (id)
                                  CROSS JOIN LATERAL (SELECT x.queue, x.priority,
                                                             windlass.abilities_of(x.options)
                                                        FROM windlass.held x
                                                       WHERE x.id = u.id OFFSET 0) AS h
                                  ORDER BY queue) AS w);
        PERFORM windlass.lane_lock(l.lane) FROM (SELECT u.lane FROM unnest(v_lanes) AS u (lane)
                                                  ORDER BY u.lane OFFSET 0) AS l;
    END IF;
    v_late := ARRAY(SELECT d.id FROM windlass.deferred d WHERE d.id = ANY (v_plain) AND d.replaces IS NULL
                      AND (p_kind <> 'expired' OR windlass.may_expire(d.options)) FOR UPDATE SKIP LOCKED);
    v_held := ARRAY(SELECT h.id FROM windlass.held h
                     WHERE h.id = ANY (v_plain) AND h.replaces IS NULL
                       AND (p_kind <> 'expired' OR windlass.may_expire(h.options)) FOR UPDATE SKIP LOCKED);
    WITH gone AS (DELETE FROM windlass.deferred d WHERE d.id = ANY (v_late) RETURNING d.*),
         freed AS (DELETE FROM windlass.held h WHERE h.id = ANY (v_held) RETURNING h.*)
    SELECT array_agg(x.r) INTO v_rows
      FROM (SELECT ROW (d.id, 0, d.enqueued_at, d.enqueued_at, d.priority, d.attempt, d.deaths, d.queue, NULL,
                        d.task, d.payload, d.options, NULL, 1, NULL)::windlass.held AS r FROM gone d
             UNION ALL
            SELECT ROW (f.*)::windlass.held FROM freed f) AS x;
    IF v_rows IS NULL THEN
        RETURN '{}';
    END IF;
    FOR g IN
        SELECT windlass.ensure_lane(u.queue, u.priority, windlass.abilities_of(u.options)) AS lane,
               count(*)::int AS n,
               array_agg(u.task) AS tasks, array_agg(u.payload::text) AS payloads,
               array_agg(u.options::text) AS options, array_agg(u.id) AS ids,
               array_agg(u.attempt) AS attempts, array_agg(u.deaths) AS deaths,
               array_agg(u.enqueued_at) AS enqueued
          FROM unnest(v_rows) AS u
         WHERE p_kind IN ('cancelled', 'expired')
         GROUP BY u.queue, u.priority, windlass.abilities_of(u.options) ORDER BY lane
    LOOP
        PERFORM windlass.take_ahead(
            g.lane,
            windlass.offer(g.lane, g.n, g.tasks, g.payloads, g.options, g.ids, g.attempts, g.deaths,
                           g.enqueued),
            p_kind);
    END LOOP;
    v_late := ARRAY(SELECT u.id FROM unnest(v_rows) AS u);
    PERFORM windlass.settle(v_late, NULL, NULL, windlass.shown_as(p_kind, NULL, NULL));
    IF p_kind = 'deleted' THEN
        PERFORM windlass.drop_steps(v_late);
    END IF;
    RETURN v_late;
END $$;

-- Ends jobs that wait in one lane, as cancelled, expired or deleted: one claim row of worker 0 and one
-- outcome for all of them [rule 13]. Returns those it ended; others have been claimed or moved meanwhile.
-- Callers: end_expired; the store, with positions from places_of. May call: worker. Plan: pinned. Lock:
-- ACCESS SHARE on claim, as in finish; then the lane, until the transaction ends: one lane a transaction, so
-- that no two of these deadlock.
CREATE OR REPLACE FUNCTION windlass.end_in_lane(p_lane int, p_seqs bigint[], p_kind text) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_jobs bigint[];
BEGIN
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    SELECT array_agg(windlass.job_of(x.ready)) INTO v_jobs
      FROM unnest(windlass.take_ahead(p_lane, p_seqs, p_kind)) AS s (seq)
     CROSS JOIN LATERAL (SELECT r AS ready FROM windlass.ready r WHERE r.lane = p_lane AND r.seq = s.seq
                         OFFSET 0) AS x;
    IF v_jobs IS NULL THEN
        RETURN '{}';
    END IF;
    PERFORM windlass.settle(v_jobs, NULL, NULL, windlass.shown_as(p_kind, NULL, NULL));
    IF p_kind = 'deleted' THEN
        PERFORM windlass.drop_steps(v_jobs);
    END IF;
    RETURN v_jobs;
END $$;

-- Claims waiting jobs of a lane ahead of its cursor, for worker 0, and ends them at once [rule 13].
-- Callers: change, end_waiting, end_in_lane, end_aside, hold_unserved. May call: worker. Plan: the caller's.
-- Lock: the lane. Returns the seqs it really took. The row leaves hi where it was: what lies beyond is
-- remembered in `ahead` until hi passes it, what was a visible hole is a hole no more. It adds no hole and
-- moves no horizon, so its xid may be of any age.
CREATE OR REPLACE FUNCTION windlass.take_ahead(p_lane int, p_seqs bigint[], p_kind text) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    c        windlass.claim;
    h        record;
    v_holes  int8multirange;
    v_ahead  int8multirange;
    v_inline int8multirange;
    v_taken  int8multirange;
    v_seqs   bigint[];
    v_tasks  text[];
    v_claim  bigint;
    v_spill  bigint[];
    v_segment smallint;
BEGIN
    PERFORM windlass.check_epoch();
    PERFORM windlass.lane_lock(p_lane);
    c := windlass.cursor_of(p_lane);
    v_holes := windlass.gather_seqs(coalesce(c.young, '{}') + coalesce(c.old, '{}'), c.spilled);
    -- A side row keeps numbers that hi has passed since.
    v_ahead := windlass.gather_seqs(c.ahead, c.ahead_spilled) * int8multirange(int8range(c.hi + 1, NULL));
    SELECT array_agg(r.seq), range_agg(int8range(r.seq, r.seq + 1)), array_agg(r.task ORDER BY r.seq)
      INTO v_seqs, v_taken, v_tasks
      FROM unnest(p_seqs) AS s (seq)
     CROSS JOIN LATERAL (SELECT x.seq, x.task FROM windlass.ready x WHERE x.lane = p_lane AND x.seq = s.seq
                         OFFSET 0) AS r
     WHERE r.seq > c.hi AND NOT r.seq <@ v_ahead OR r.seq <@ v_holes;
    IF v_seqs IS NULL THEN
        RETURN '{}';
    END IF;
    SELECT * INTO h FROM windlass.hole_state(c, v_taken, '{}', NULL, NULL);
    v_inline := coalesce(c.ahead, '{}') + (v_taken - v_holes);
    v_spill := c.ahead_spilled;
    IF (SELECT count(*) FROM unnest(v_inline)) > 32 THEN
        v_spill := windlass.spill_seqs(p_lane, v_inline, 0, coalesce(v_spill, '{}'));
        v_inline := '{}';
    END IF;
    v_claim := windlass.next_claim(c);
    v_segment := pg_sequence_last_value('windlass.segment_current'::regclass);
    INSERT INTO windlass.claim (segment, id, lane, worker, hi, n, late, seqs, claimed_at, probed_at, young,
                                old, old_horizon, spilled, holes, ahead, ahead_spilled, ahead_n, tasks)
    VALUES (v_segment, v_claim, p_lane, 0, c.hi, cardinality(v_seqs), true, v_taken, c.claimed_at,
            c.probed_at, h.young, h.old, h.horizon, h.spilled, h.holes, nullif(v_inline, '{}'), v_spill,
            windlass.count_seqs(v_ahead + (v_taken - v_holes)),
            CASE WHEN v_tasks[1] = ALL (v_tasks) THEN v_tasks[:1] ELSE v_tasks END);
    INSERT INTO windlass.outcome (segment, claim, lane, flush, kind, seqs, n, at)
    VALUES (v_segment, v_claim, p_lane, 0, p_kind, v_taken, cardinality(v_seqs), windlass.now());
    RETURN v_seqs;
END $$;

-- ==== Replacements ====

-- Ends waiting twins that were replaced, each in its lane, and makes their successors due, or lets them go on
-- from their place in the list of their ordering key [F6].
-- Callers: the store after an enqueue with "replace", and in promote. May call: worker. Plan: indexed. Lock:
-- ACCESS SHARE on claim; the successors' rows, and those of try_lock_waiting, without waiting: locked ones
-- are skipped [S2]. A twin that has started meanwhile runs on, and its successor is due when it has ended. It
-- looks at fifty, and the next step continues behind them, so that such pairs hold up nobody.
CREATE OR REPLACE FUNCTION windlass.replace_step(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    d       record;
    v_twin  bigint;
    v_n     int := least(p_limit, 50);
    v_seen  bigint[];
    v_done  int := 0;
    v_began timestamptz := clock_timestamp();
BEGIN
    -- As in finish: the snapshot that says which twins run must be younger than any rotation that moved them.
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    v_seen := ARRAY((SELECT x.replaces FROM windlass.deferred x
                      WHERE x.replaces > pg_sequence_last_value('windlass.replace_from'::regclass)
                      ORDER BY x.replaces LIMIT v_n)
                     UNION
                    (SELECT x.replaces FROM windlass.held x
                      WHERE x.replaces > pg_sequence_last_value('windlass.replace_from'::regclass)
                      ORDER BY x.replaces LIMIT v_n)
                     ORDER BY 1 LIMIT v_n);
    PERFORM setval('windlass.replace_from'::regclass, CASE WHEN cardinality(v_seen) < v_n THEN 0
                                                           ELSE v_seen[v_n] END, true);
    FOREACH v_twin IN ARRAY v_seen LOOP
        -- Keep the lane locks short.
        EXIT WHEN v_done > 0 AND clock_timestamp() > v_began + interval '50 ms';
        SELECT x.id, NULL AS gate INTO d FROM windlass.deferred x WHERE x.replaces = v_twin
           FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            SELECT x.id, x.gate INTO d FROM windlass.held x WHERE x.replaces = v_twin FOR UPDATE SKIP LOCKED;
        END IF;
        CONTINUE WHEN NOT FOUND
                   OR EXISTS (SELECT FROM windlass.locate(v_twin) l
                               WHERE l.claim IS NOT NULL AND l.kind IS NULL)
                   OR NOT windlass.try_lock_waiting(v_twin);
        IF NOT windlass.end_waiting(v_twin, 'replaced') THEN
            -- It runs, or is about to. Any decision might be wrong by the time this commits, so its successor
            -- waits on.
            CONTINUE WHEN windlass.is_unfinished(v_twin);
        END IF;
        IF d.gate IS NULL THEN
            -- A new xid: promote's watermark passed the row while it could not go.
            UPDATE windlass.deferred SET replaces = NULL, xid = pg_current_xact_id() WHERE id = d.id;
        ELSE
            UPDATE windlass.held SET replaces = NULL WHERE id = d.id;
            PERFORM windlass.mark_gates_changed(ARRAY[d.gate], true);
        END IF;
        v_done := v_done + 1;
    END LOOP;
    RETURN v_done;
END $$;

-- ==== Statements that the store sends ====

-- :replace_at_once
-- replace_step after a committed enqueue: it does not wait long for a lane. The setting ends with the
-- statement.
SELECT set_config('lock_timeout', '100ms', true), windlass.replace_step($1)
