-- Jobs that wait for a time, for other jobs, or for the one they replace, until they are offered.

-- ==== Due jobs ====

-- One bounded step: offers deferred jobs that are due, earliest first. Returns how many.
-- Callers: the store. May call: worker. Lock: the watermark row and the rows that are due, by trying only:
-- somebody who has one of them locked must not hold up the rest; those of declare_lane where a lane must be
-- declared, for a second at most; then those of offer. The watermark says: all that was due at (run_at, job)
-- and visible in snapshot is gone from the table, or noted in deferred_left because somebody had it locked.
-- So the scan starts behind it and never reads its own dead rows again, whoever holds a snapshot open; and a
-- row that committed late, or was made due behind it, is found by its xid, which that snapshot cannot see.
-- What was left is tried again with each step, and forgotten when it is gone or due no more: whoever makes it
-- due again gives it a new xid.
CREATE OR REPLACE FUNCTION windlass.promote(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s'
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    c_last    CONSTANT bigint := 9223372036854775807;
    c_looks   CONSTANT int := 10;  -- how often a step looks further where it met locked rows
    w         windlass.deferred_watermark;
    s         record;              -- rows that were seen: places in the table, ids, queues, priorities
    g         record;
    v_now     timestamptz := windlass.now();
    v_was     timestamptz;
    v_seen    pg_snapshot;
    v_late    int;
    v_left    bigint[];
    v_got     tid[];
    v_mine    tid[] := '{}';
    v_found   boolean := false;
    v_busy    text[] := '{}';
    v_limited text[] := windlass.limited_tasks(NULL);
BEGIN
    PERFORM windlass.require_read_committed();
    SELECT * INTO w FROM windlass.deferred_watermark WHERE single FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    v_was := w.run_at;
    IF v_was > v_now THEN
        w.run_at := v_now;
        w.job := c_last;
    END IF;
    FOR v_look IN 0..c_looks LOOP
        IF v_look = 0 THEN
            -- Behind the watermark: the late ones by their xids, the one order that reads nothing else; then
            -- those that were left.
            v_left := ARRAY(SELECT l.id FROM windlass.deferred_left l WHERE l.id > w.retried ORDER BY l.id
                             LIMIT c_looks * p_limit);
            WITH late AS MATERIALIZED (
                SELECT d.ctid AS place, d.id, d.run_at, d.queue, d.priority FROM windlass.deferred d
                 WHERE d.xid >= pg_snapshot_xmin(w.snapshot) AND NOT pg_visible_in_snapshot(d.xid, w.snapshot)
                   AND (d.run_at, d.id + 0) <= (w.run_at, w.job) AND d.replaces IS NULL
                   AND NOT EXISTS (SELECT FROM windlass.deferred_left l WHERE l.id = d.id OFFSET 0)
                 ORDER BY d.xid LIMIT p_limit),
            rest AS MATERIALIZED (
                SELECT d.* FROM unnest(v_left) AS l (id)
                 CROSS JOIN LATERAL (SELECT x.ctid AS place, x.id, x.run_at, x.queue, x.priority
                                       FROM windlass.deferred x
                                      WHERE x.id = l.id AND x.run_at <= v_now AND x.replaces IS NULL
                                      LIMIT 1) AS d)
            SELECT array_agg(x.place ORDER BY x.run_at, x.id) AS places,
                   array_agg(x.id ORDER BY x.run_at, x.id) AS ids,
                   array_agg(x.queue ORDER BY x.run_at, x.id) AS queues,
                   array_agg(x.priority ORDER BY x.run_at, x.id) AS priorities,
                   (SELECT count(*) FROM late) AS late, pg_current_snapshot() AS seen
              INTO s FROM (SELECT * FROM late UNION ALL SELECT * FROM rest) AS x;
            v_late := s.late;
            v_seen := s.seen;
            IF v_left <> '{}' THEN
                DELETE FROM windlass.deferred_left
                 WHERE id = ANY (ARRAY(SELECT unnest(v_left) EXCEPT SELECT unnest(s.ids)));
            END IF;
        ELSE
            SELECT array_agg(x.place) AS places, array_agg(x.id) AS ids, array_agg(x.queue) AS queues,
                   array_agg(x.priority) AS priorities, max(x.run_at) AS last INTO s
              FROM (SELECT d.ctid AS place, d.id, d.run_at, d.queue, d.priority FROM windlass.deferred d
                     WHERE (d.run_at, d.id + 0) > (w.run_at, w.job) AND d.run_at <= v_now
                       AND d.replaces IS NULL
                     ORDER BY d.run_at, d.id + 0 LIMIT p_limit - cardinality(v_mine)) AS x;
            IF coalesce(cardinality(s.ids), 0) < p_limit - cardinality(v_mine) THEN
                w.run_at := v_now;
                w.job := c_last;
            ELSE
                w.run_at := s.last;
                w.job := s.ids[cardinality(s.ids)];
            END IF;
        END IF;
        v_found := v_found OR s.ids IS NOT NULL;
        -- A lane that is not there is declared. Where somebody holds that up, its jobs are left.
        v_busy := v_busy || ARRAY(SELECT x.queue || '/' || x.priority
                                    FROM (SELECT DISTINCT u.queue, u.priority
                                            FROM unnest(s.queues, s.priorities) AS u (queue, priority)) AS x
                                   WHERE x.queue || '/' || x.priority <> ALL (v_busy)
                                     AND windlass.try_lane(x.queue, x.priority) IS NULL);
        v_got := ARRAY(SELECT d.ctid FROM unnest(s.places, s.queues, s.priorities) AS u (place, queue,
                priority)
                         JOIN windlass.deferred d ON d.ctid = u.place
                        WHERE v_busy = '{}' OR u.queue || '/' || u.priority <> ALL (v_busy)
                        LIMIT p_limit - cardinality(v_mine) FOR UPDATE OF d SKIP LOCKED);
        v_mine := v_mine || v_got;
        IF cardinality(s.ids) > cardinality(v_got) THEN
            INSERT INTO windlass.deferred_left (id)
            SELECT u.id FROM unnest(s.places, s.ids) AS u (place, id)
             WHERE NOT EXISTS (SELECT FROM unnest(v_got) AS o (place) WHERE o.place = u.place)
            ON CONFLICT DO NOTHING;
        END IF;
        IF v_look = 0 AND cardinality(v_left) = c_looks * p_limit THEN
            w.retried := CASE WHEN cardinality(v_mine) < p_limit THEN v_left[c_looks * p_limit]
                              ELSE w.retried END;
        ELSIF v_look = 0 THEN
            w.retried := 0;
        END IF;
        EXIT WHEN cardinality(v_mine) >= p_limit OR w.job = c_last AND v_look > 0;
    END LOOP;
    -- A job with a fair key takes a new turn, behind its key's others; one with gates goes to the end of the
    -- waiting list of the first it has no pass of.
    FOR g IN
        WITH gone AS MATERIALIZED (
            DELETE FROM windlass.deferred d USING unnest(v_mine) AS u (place) WHERE d.ctid = u.place
         RETURNING d.*),
        aside AS (
            SELECT o.*, windlass.next_gate(o.id, o.queue, o.task, o.options) AS gate,
                   o.options ->> 'fair_key' AS fair
              FROM gone o WHERE windlass.may_be_gated(o.task, o.options::text, v_limited)),
        put AS (
            INSERT INTO windlass.held (id, since, enqueued_at, queue, priority, attempt, deaths, gate,
                                       fair_key, task, payload, options)
            SELECT a.id, v_now, a.enqueued_at, a.queue, a.priority, a.attempt, a.deaths, a.gate,
                   CASE WHEN a.gate IS NULL THEN a.fair END, a.task, a.payload, a.options
              FROM aside a WHERE a.gate IS NOT NULL OR a.fair IS NOT NULL
            RETURNING id, gate),
        noted AS (INSERT INTO windlass.changed_gate (gate) SELECT DISTINCT gate FROM put
                   WHERE gate IS NOT NULL)
        SELECT o.queue, o.priority, count(*)::int AS n, array_agg(o.task) AS tasks,
               array_agg(o.payload::text) AS payloads, array_agg(o.options::text) AS options,
               array_agg(o.id) AS ids, array_agg(o.attempt) AS attempts, array_agg(o.deaths) AS deaths,
               array_agg(o.enqueued_at) AS enqueued
          FROM gone o WHERE o.id <> ALL (ARRAY(SELECT id FROM put))
         GROUP BY o.queue, o.priority
    LOOP
        PERFORM windlass.offer(windlass.lane_for(g.queue, g.priority), g.n, g.tasks, g.payloads, g.options,
                               g.ids, g.attempts, g.deaths, g.enqueued);
    END LOOP;
    -- Where the step was too small for the late ones, they stay late. An idle watermark moves every 5 s, to
    -- leave few dead rows of its own.
    IF v_found OR w.snapshot IS NULL OR v_now NOT BETWEEN v_was AND v_was + interval '5 s' THEN
        UPDATE windlass.deferred_watermark SET run_at = w.run_at, job = w.job, retried = w.retried,
               snapshot = CASE WHEN v_late < p_limit THEN v_seen ELSE w.snapshot END
         WHERE single;
    END IF;
    RETURN cardinality(v_mine);
END $$;

-- The clock was set back: buckets that have seen a later time count from now [fault 31]. Each does so by
-- itself when it is written, but one that has nothing to grant is not. Up to p_limit; returns how many.
-- Callers: the store's promote, when its own watermark lies in a time to come. May call: worker. Lock: the
-- rows it changes, by trying only.
CREATE OR REPLACE FUNCTION windlass.clock_back(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    v_now  float8 := windlass.unix_time();
    v_done int;
BEGIN
    UPDATE windlass.bucket x SET (tokens, at, blocked_until, drains) =
           (SELECT r.tokens, r.at, r.blocked_until, r.drains FROM windlass.bucket_at(b, x, v_now) AS r)
      FROM windlass.budget b
     WHERE b.name = x.budget
       AND (x.budget, x.key) IN (SELECT y.budget, y.key FROM windlass.bucket y WHERE y.at > v_now + 1
                                  LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS v_done = ROW_COUNT;
    RETURN v_done;
END $$;

-- ==== After other jobs ====

-- Refuses a job that is to come after one that is not there [P12].
-- Callers: enqueue_one. May call: worker. Lock: ACCESS SHARE on claim, as in finish, so that the snapshot
-- that looks for them is younger than any rotation that moved them.
CREATE OR REPLACE FUNCTION windlass.check_after(p_after bigint[], p_known boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_missing bigint;
BEGIN
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    IF p_known THEN
        RETURN;
    END IF;
    SELECT a INTO v_missing FROM unnest(p_after) AS a
     WHERE NOT EXISTS (SELECT FROM windlass.standing_of(a)) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'there is no job % to come after', v_missing USING ERRCODE = 'WL010',
            HINT = 'It never existed, was deleted, or its retention has passed.';
    END IF;
END $$;

-- One bounded step along the edges of jobs that come after others, in turn [P12]: a job whose last edge is
-- gone falls due, one that can never run ends as its option says. `looked` counts edges; `around`: the walk
-- has come to its end.
-- Callers: the store's promote. May call: worker. Lock: the row that says how far the walk has come, and the
-- waiting jobs, by trying only; ACCESS SHARE on claim, as in finish; then those of try_lock_waiting for those
-- it cancels, by trying only.
-- It looks at what is, not at what happens: no finish can slip past it. A job that is gone has succeeded,
-- unless its end is noted (see settle): nothing else is ever forgotten without a note. An edge whose job
-- waits no more (taken back, or offered by an operator) is dropped.
CREATE OR REPLACE FUNCTION windlass.follow(p_limit int, OUT looked int, OUT around boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    k        windlass.after_look;
    e        windlass.after_edge;
    d        windlass.deferred;
    v_state  text;
    v_policy text;
    v_cancel bigint[] := '{}';
    v_ended  boolean := false;
BEGIN
    PERFORM windlass.require_read_committed();
    looked := 0;
    around := true;
    SELECT * INTO k FROM windlass.after_look FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    FOR e IN SELECT * FROM windlass.after_edge x WHERE (x.job, x.on_job) > (k.job, k.on_job)
              ORDER BY x.job, x.on_job LIMIT p_limit LOOP
        looked := looked + 1;
        k.job := e.job;
        k.on_job := e.on_job;
        SELECT * INTO d FROM windlass.deferred x WHERE x.id = e.job AND x.run_at = 'infinity'
           FOR UPDATE SKIP LOCKED;
        IF d.id IS NULL THEN
            DELETE FROM windlass.after_edge x
             WHERE x.job = e.job AND x.on_job = e.on_job
               AND NOT EXISTS (SELECT FROM windlass.deferred y WHERE y.id = e.job AND y.run_at = 'infinity');
        END IF;
        CONTINUE WHEN d.id IS NULL OR d.id = ANY (v_cancel);
        -- One snapshot: a job that is deleted right now is there, or noted.
        v_state := (SELECT coalesce((SELECT s.state FROM windlass.standing_of(e.on_job) AS s), e.ended,
                                    (SELECT o.kind FROM windlass.ended_otherwise o WHERE o.job = e.on_job),
                                    'succeeded'));
        CONTINUE WHEN v_state NOT IN ('succeeded', 'dead', 'cancelled', 'deleted', 'replaced');
        v_policy := CASE WHEN v_state = 'succeeded' THEN 'run'
                         ELSE coalesce(d.options ->> 'otherwise', 'dead') END;
        -- One that has yet to replace another does so before it ends: see replace_step.
        CONTINUE WHEN d.replaces IS NOT NULL AND v_policy <> 'run';
        IF v_policy = 'cancel' THEN
            v_cancel := v_cancel || e.job;
            CONTINUE;
        END IF;
        DELETE FROM windlass.after_edge x WHERE x.job = e.job AND x.on_job = e.on_job;
        IF v_policy = 'dead' THEN
            PERFORM windlass.bury_deferred(
                d, format('job %s, which it comes after, is %s', e.on_job, v_state));
            v_ended := true;
        ELSIF NOT EXISTS (SELECT FROM windlass.after_edge x WHERE x.job = e.job) THEN
            -- A new xid: promote's watermark may have passed this moment already.
            UPDATE windlass.deferred x
               SET run_at = greatest(windlass.now(), x.not_before), xid = pg_current_xact_id()
               WHERE x.id = e.job;
        END IF;
    END LOOP;
    around := looked < p_limit;
    UPDATE windlass.after_look x SET job = CASE WHEN around THEN 0 ELSE k.job END,
           on_job = CASE WHEN around THEN 0 ELSE k.on_job END
     WHERE looked > 0 OR x.job > 0;
    -- Lanes are taken last, and not for long. Who cannot be cancelled now keeps its edges, and is looked at
    -- again.
    FOREACH e.job IN ARRAY v_cancel LOOP
        IF windlass.try_lock_waiting(e.job) THEN
            DELETE FROM windlass.after_edge x WHERE x.job = e.job;
            PERFORM windlass.end_waiting(e.job, 'cancelled');
            v_ended := true;
        END IF;
    END LOOP;
    IF v_ended AND pg_sequence_last_value('windlass.awaited'::regclass) = 1 THEN
        PERFORM windlass.wake('!');
    END IF;
END $$;

-- Moves a job that waits in deferred to the dead letters.
-- Callers: follow. May call: worker. Lock: its row, held by the caller.
CREATE OR REPLACE FUNCTION windlass.bury_deferred(d windlass.deferred, p_reason text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_errors json := windlass.failures_of(d.id);
BEGIN
    DELETE FROM windlass.deferred x WHERE x.id = d.id;
    INSERT INTO windlass.dead (id, enqueued_at, died_at, queue, priority, task, payload, options, attempt,
                               deaths, reason, errors, error)
    VALUES (d.id, d.enqueued_at, windlass.now(), d.queue, d.priority, d.task, d.payload, d.options, d.attempt,
            d.deaths, p_reason, v_errors, coalesce(v_errors -> -1 ->> 'type', ''));
    INSERT INTO windlass.ended_aside (queue, task, kind) VALUES (d.queue, d.task, 'dead');
    PERFORM windlass.settle(ARRAY[d.id], NULL, NULL, 'dead');
END $$;

-- ==== Replacements ====

-- Takes back waiting twins that were replaced, each in its lane, and lets their successors go.
-- Callers: the store after an enqueue with "replace", and in promote. May call: worker. Lock: ACCESS SHARE on
-- claim; the successors' rows, and those of try_lock_waiting, by trying only: what somebody holds is passed
-- over [S2]. A twin that has started in the meantime is not taken back: its successor goes when it has ended.
-- Those are passed, so that they hold up nobody else: it looks at fifty, and the next step continues behind
-- them.
CREATE OR REPLACE FUNCTION windlass.replace_step(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
SET jit = off AS $$
DECLARE
    d       record;
    v_n     int := least(p_limit, 50);
    v_seen  bigint[];
    v_done  int := 0;
    v_began timestamptz := clock_timestamp();
BEGIN
    -- As in finish: the snapshot that says which twins run must be younger than any rotation that moved them.
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    v_seen := ARRAY(SELECT x.replaces FROM windlass.deferred x
                     WHERE x.replaces > pg_sequence_last_value('windlass.replace_from'::regclass)
                     ORDER BY x.replaces LIMIT v_n);
    PERFORM setval('windlass.replace_from'::regclass, CASE WHEN cardinality(v_seen) < v_n THEN 0
                                                           ELSE v_seen[v_n] END, true);
    FOR d IN SELECT * FROM windlass.deferred x WHERE x.replaces = ANY (v_seen) ORDER BY x.replaces
                FOR UPDATE SKIP LOCKED LOOP
        -- Lanes are not held for long.
        EXIT WHEN v_done > 0 AND clock_timestamp() > v_began + interval '50 ms';
        CONTINUE WHEN EXISTS (SELECT FROM windlass.locate(d.replaces) l
                               WHERE l.claim IS NOT NULL AND l.kind IS NULL)
                   OR NOT windlass.try_lock_waiting(d.replaces);
        IF NOT windlass.end_waiting(d.replaces, 'replaced') THEN
            -- It runs, or is on its way. Whatever is decided about it now may be wrong when this commits, so
            -- its successor simply waits on.
            CONTINUE WHEN windlass.is_unfinished(d.replaces);
        END IF;
        -- A new xid: promote's watermark has passed the row while it was not free to go.
        UPDATE windlass.deferred SET replaces = NULL, xid = pg_current_xact_id() WHERE id = d.id;
        v_done := v_done + 1;
    END LOOP;
    RETURN v_done;
END $$;

-- ==== Statements that the store sends ====

-- :replace_at_once
-- replace_step behind an enqueue, which is committed: it waits for nobody's lane for long. The setting ends
-- with the statement.
SELECT set_config('lock_timeout', '100ms', true), windlass.replace_step($1)
