-- Jobs that wait for a time, for other jobs, or for the one they replace, until they are offered.

-- ==== Due jobs ====

-- One bounded step: offers deferred jobs that are due, earliest first. Returns how many.
-- Callers: the store. May call: worker. Plan: pinned, ordered. Lock: the watermark row and the rows that are
-- due, without waiting: one locked row must not hold up the rest; those of declare_lane where a lane must be
-- declared, for a second at most; then those of offer. The watermark says: all that was due at (run_at, job)
-- and visible in snapshot is gone from the table, or noted in deferred_left because somebody had it locked.
-- So the scan starts behind it and never rereads its own dead rows, even under an open snapshot; and a row
-- that committed late, or was made due behind it, is found by its xid, which that snapshot cannot see. Rows
-- that were left are tried again with each step, until they are gone or no longer due: what makes a row due
-- again gives it a new xid.
CREATE OR REPLACE FUNCTION windlass.promote(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '1s' AS $$
DECLARE
    c_last    CONSTANT bigint := 9223372036854775807;
    c_looks   CONSTANT int := 10;  -- how often a step looks further where it met locked rows
    w         windlass.deferred_watermark;
    s         record;              -- rows that were seen: places in the table, ids, queues, priorities
    v_now     timestamptz := windlass.now();
    v_was     timestamptz;
    v_seen    pg_snapshot;
    v_late    int;
    v_left    bigint[];
    v_got     tid[];
    v_mine    tid[] := '{}';
    v_found   boolean := false;
    v_busy    text[] := '{}';
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
            -- Behind the watermark: late rows by their xids, since only that index reads no others; then
            -- those that were left.
            v_left := ARRAY(SELECT l.id FROM windlass.deferred_left l WHERE l.id > w.retried ORDER BY l.id
                             LIMIT c_looks * p_limit);
            WITH late AS MATERIALIZED (
                SELECT d.ctid AS place, d.id, d.run_at, d.queue, d.priority,
                       windlass.abilities_of(d.options) AS abilities
                  FROM windlass.deferred d
                 WHERE d.xid >= pg_snapshot_xmin(w.snapshot) AND NOT pg_visible_in_snapshot(d.xid, w.snapshot)
                   AND (d.run_at, d.id + 0) <= (w.run_at, w.job) AND d.replaces IS NULL
                   AND NOT EXISTS (SELECT FROM windlass.deferred_left l WHERE l.id = d.id OFFSET 0)
                 ORDER BY d.xid LIMIT p_limit),
            rest AS MATERIALIZED (
                SELECT d.* FROM unnest(v_left) AS l (id)
                 CROSS JOIN LATERAL (SELECT x.ctid AS place, x.id, x.run_at, x.queue, x.priority,
                                            windlass.abilities_of(x.options) AS abilities
                                       FROM windlass.deferred x
                                      WHERE x.id = l.id AND x.run_at <= v_now AND x.replaces IS NULL
                                      LIMIT 1) AS d)
            SELECT array_agg(x.place ORDER BY x.run_at, x.id) AS places,
                   array_agg(x.id ORDER BY x.run_at, x.id) AS ids,
                   array_agg(x.queue ORDER BY x.run_at, x.id) AS queues,
                   array_agg(x.priority ORDER BY x.run_at, x.id) AS priorities,
                   array_agg(x.abilities ORDER BY x.run_at, x.id) AS abilities,
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
                   array_agg(x.priority) AS priorities, array_agg(x.abilities) AS abilities,
                   max(x.run_at) AS last INTO s
              FROM (SELECT d.ctid AS place, d.id, d.run_at, d.queue, d.priority,
                           windlass.abilities_of(d.options) AS abilities
                      FROM windlass.deferred d
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
        -- A missing lane is declared. If a lock prevents that, its jobs are left.
        v_busy := v_busy || ARRAY(SELECT concat_ws('/', x.queue, x.priority, x.abilities)
                                    FROM (SELECT DISTINCT u.queue, u.priority, u.abilities
                                            FROM unnest(s.queues, s.priorities, s.abilities)
                                              AS u (queue, priority, abilities)) AS x
                                   WHERE concat_ws('/', x.queue, x.priority, x.abilities) <> ALL (v_busy)
                                     AND windlass.try_lane(x.queue, x.priority, x.abilities) IS NULL);
        v_got := ARRAY(SELECT d.ctid
                         FROM unnest(s.places, s.queues, s.priorities, s.abilities)
                           AS u (place, queue, priority, abilities)
                         JOIN windlass.deferred d ON d.ctid = u.place
                        WHERE v_busy = '{}'
                           OR concat_ws('/', u.queue, u.priority, u.abilities) <> ALL (v_busy)
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
    PERFORM windlass.offer_deferred(v_mine);
    -- Where the step was too small for the late ones, they stay late. An idle watermark moves every 5 s, to
    -- leave few dead rows of its own.
    IF v_found OR w.snapshot IS NULL OR v_now NOT BETWEEN v_was AND v_was + interval '5 s' THEN
        UPDATE windlass.deferred_watermark SET run_at = w.run_at, job = w.job, retried = w.retried,
               snapshot = CASE WHEN v_late < p_limit THEN v_seen ELSE w.snapshot END
         WHERE single;
    END IF;
    RETURN cardinality(v_mine);
END $$;

-- Moves deferred jobs, by their places in the table, to their lanes; true where some went aside, to a waiting
-- list or the ring of fair keys, so that sweep_gates and admit have something to do.
-- Callers: promote, serve_after, go_on. May call: worker. Plan: generic, pinned, ordered. Lock: the rows,
-- held by the caller, who knows that their lanes are declared, or that they have a gate to pass; those of
-- offer.
CREATE OR REPLACE FUNCTION windlass.offer_deferred(p_places tid[]) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    g         record;
    v_now     timestamptz := windlass.now();
    v_limited text[] := windlass.limited_tasks(NULL);
    v_n       int := 0;
BEGIN
    -- A job with a fair key takes a new turn, behind its key's others; one with gates goes to the end of the
    -- waiting list of the first it has no pass of.
    FOR g IN
        WITH gone AS MATERIALIZED (
            DELETE FROM windlass.deferred d USING unnest(p_places) AS u (place) WHERE d.ctid = u.place
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
            RETURNING id, gate, turn),
        noted AS (INSERT INTO windlass.changed_gate (gate, turn) SELECT gate, min(turn) FROM put
                   WHERE gate IS NOT NULL GROUP BY gate)
        SELECT o.queue, o.priority, windlass.abilities_of(o.options) AS abilities, count(*)::int AS n,
               array_agg(o.task) AS tasks,
               array_agg(o.payload::text) AS payloads, array_agg(o.options::text) AS options,
               array_agg(o.id) AS ids, array_agg(o.attempt) AS attempts, array_agg(o.deaths) AS deaths,
               array_agg(o.enqueued_at) AS enqueued
          FROM gone o WHERE o.id <> ALL (ARRAY(SELECT id FROM put))
         GROUP BY o.queue, o.priority, abilities
    LOOP
        v_n := v_n + g.n;
        PERFORM windlass.offer(windlass.lane_for(g.queue, g.priority, g.abilities), g.n, g.tasks, g.payloads,
                               g.options, g.ids, g.attempts, g.deaths, g.enqueued);
    END LOOP;
    RETURN v_n < cardinality(p_places);
END $$;

-- ==== After other jobs ====

-- How the jobs that a new one comes after stand, by their ids; refuses one that is not there [P12]. p_known:
-- one that is gone has gone since.
-- Callers: enqueue_one, import_rows, waits_of, add_to_group. May call: worker. Plan: the caller's. Lock:
-- ACCESS SHARE on claim, as in finish, so that the snapshot that looks for them is younger than any rotation
-- that moved them.
CREATE OR REPLACE FUNCTION windlass.check_after(p_after bigint[], p_known boolean)
RETURNS TABLE (on_job bigint, state text)
LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    FOR on_job, state IN SELECT u.a, (SELECT s.state FROM windlass.standing_of(u.a) AS s)
                           FROM unnest(p_after) AS u (a) LOOP
        IF state IS NULL AND NOT p_known THEN
            RAISE EXCEPTION 'there is no job % to come after', on_job USING ERRCODE = 'WL010',
                HINT = 'It never existed, was deleted, or its retention has passed.';
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- What new jobs wait for, by their options: whether each does, and edge by edge the job's place among them,
-- the job that it comes after and how that one stands. What has succeeded is not waited for, but by a job
-- that runs only where one fails: follow judges it. One whose idempotency key is known is not new, and nobody
-- asks whether those it came after are still there.
-- Callers: enqueue_mixed, which holds the keys. May call: worker. Plan: pinned. Lock: that of check_after.
CREATE OR REPLACE FUNCTION windlass.waits_of(
    p_options text[], p_keys text[], OUT waits boolean[], OUT places int[], OUT on_jobs bigint[],
    OUT states text[])
LANGUAGE plpgsql AS $$
DECLARE
    v_on bigint[];
BEGIN
    SELECT array_agg(x.i), array_agg(x.id) INTO places, v_on
      FROM (SELECT DISTINCT u.i::int AS i, e.id::bigint AS id
              FROM unnest(p_options, p_keys) WITH ORDINALITY AS u (o, key, i)
             CROSS JOIN LATERAL json_array_elements_text(u.o::json -> 'after') AS e (id)
             WHERE u.o LIKE '%"after"%'
               AND (u.key IS NULL OR EXISTS (SELECT FROM windlass.idempotency y
                                              WHERE y.key = u.key AND y.job = 0 OFFSET 0))) AS x;
    IF places IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(u.i), array_agg(u.id), array_agg(c.state) INTO places, on_jobs, states
      FROM unnest(places, v_on) AS u (i, id)
      JOIN windlass.check_after(ARRAY(SELECT DISTINCT unnest(v_on)), false) AS c ON c.on_job = u.id
     WHERE c.state IS DISTINCT FROM 'succeeded' OR windlass.runs_only_otherwise(p_options[u.i]::json);
    waits := array_fill(false, ARRAY[cardinality(p_options)]);
    FOR i IN 1..coalesce(cardinality(places), 0) LOOP
        waits[places[i]] := true;
    END LOOP;
END $$;

-- Whether a job runs only where one that it comes after has not succeeded.
-- Callers: enqueue_one, import_rows, waits_of. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.runs_only_otherwise(p_options json) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(p_options ->> 'otherwise' = 'run_only', false)
$$;

-- Lets new jobs wait for those that they come after. One of these that has ended or is gone is for follow to
-- see to, and so is one that may end at this very moment.
-- Callers: enqueue_one, enqueue_mixed, import_rows, add_to_group. May call: worker. Plan: the caller's. Lock:
-- none: it only adds rows.
-- By edge: the place of the job among p_jobs, the job it comes after, how that one stands. Jobs that did not
-- go the way of those that wait are left out.
CREATE OR REPLACE FUNCTION windlass.add_edges(
    p_places int[], p_on bigint[], p_states text[], p_jobs bigint[], p_ways text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO windlass.after_edge (job, on_job)
    SELECT j.id, e.on_job FROM unnest(p_places, p_on) AS e (place, on_job)
      JOIN unnest(p_jobs, p_ways) WITH ORDINALITY AS j (id, way, place) ON j.place = e.place
     WHERE j.way = 'after';
    INSERT INTO windlass.after_due (on_job, kind)
    SELECT DISTINCT u.id, u.state FROM unnest(p_on, p_states) AS u (id, state)
     WHERE u.state IS NULL OR u.state IN (:states.FINISHED);
    IF EXISTS (SELECT FROM unnest(p_states) AS s
                WHERE s IS NULL OR s IN (:states.FINISHED, 'ready', 'running')) THEN
        PERFORM windlass.wake('+');
    END IF;
END $$;

-- Jobs have ended: whoever comes after them goes on at once where that is simple; else their ends are noted,
-- and the coordinator is called [P12].
-- Callers: finish, settle, take_unique_key. May call: worker. Plan: pinned. Lock: those of serve_after.
-- Whoever ends a job has written so, in outcome, ended_otherwise or parent, before it asks for edges here:
-- follow counts on it.
CREATE OR REPLACE FUNCTION windlass.note_ends(p_jobs bigint[], p_kind text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_left bigint[];
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        v_left := p_jobs;  -- an old snapshot cannot tell whether there are edges
    ELSIF NOT EXISTS (SELECT FROM windlass.after_edge e WHERE e.on_job = ANY (p_jobs)) THEN
        RETURN;
    ELSIF p_kind = 'succeeded' THEN
        v_left := windlass.serve_after(p_jobs, 500);
    ELSE
        v_left := ARRAY(SELECT j FROM unnest(p_jobs) AS j
                         WHERE EXISTS (SELECT FROM windlass.after_edge e WHERE e.on_job = j OFFSET 0));
    END IF;
    IF v_left <> '{}' THEN
        INSERT INTO windlass.after_due (on_job, kind) SELECT j, p_kind FROM unnest(v_left) AS j;
        PERFORM windlass.wake('+');
    END IF;
END $$;

-- Takes away the edges of jobs that have succeeded, up to p_limit; who waits for nobody else is offered, or
-- due at its time. Returns those of the jobs that have edges left. p_failed: they have not succeeded, so only
-- who runs nevertheless goes on, and a group remembers that. Who runs only then keeps the edge to a success
-- for follow, which may have to end it. p_mine: only these go on, which the caller has locked.
-- Callers: note_ends, follow. May call: worker. Plan: pinned. Lock: the jobs that wait, without waiting, and
-- then their rows of group_job; those of offer.
-- isfinite keeps the index of times out of the plan, and array_position that of the other column: two arrays
-- would be probed pair by pair. Rows are found by arrays, not by joins, which may begin with all rows of a
-- table that is thought to be small [rule 8].
-- An edge is taken away by whoever has locked the job that waits: so of two who take away its last two edges
-- at the same time, one sees that nothing is left. An edge whose job waits no more is dropped.
CREATE OR REPLACE FUNCTION windlass.serve_after(
    p_on bigint[], p_limit int, p_failed boolean DEFAULT false, p_mine bigint[] DEFAULT NULL)
RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    v_now  timestamptz := windlass.now();
    v_jobs bigint[];
    v_mine bigint[];
    v_free bigint[];
    v_out  tid[];
    v_aside boolean;
BEGIN
    v_jobs := ARRAY(SELECT DISTINCT e.job
                      FROM (SELECT y.job FROM unnest(p_on) AS u (id)
                             CROSS JOIN LATERAL (SELECT x.job FROM windlass.after_edge x
                                                  WHERE x.on_job = u.id ORDER BY x.on_job, x.job + 0
                                                  LIMIT p_limit) AS y
                             LIMIT p_limit) AS e);
    v_mine := ARRAY(SELECT d.id FROM windlass.deferred d
                     WHERE d.id = ANY (coalesce(p_mine, v_jobs)) AND NOT isfinite(d.run_at)
                       AND CASE WHEN p_failed THEN d.options ->> 'otherwise' IN ('run', 'run_only')
                                ELSE d.options ->> 'otherwise' IS DISTINCT FROM 'run_only' END
                       FOR UPDATE SKIP LOCKED);
    IF p_failed THEN
        UPDATE windlass.group_job g SET failed = true WHERE g.group_end = ANY (v_mine) AND g.job = ANY (p_on);
    END IF;
    DELETE FROM windlass.after_edge e
     WHERE e.job = ANY (v_jobs) AND array_position(p_on, e.on_job) IS NOT NULL
       AND (e.job = ANY (v_mine) OR NOT EXISTS (SELECT FROM windlass.deferred d
                                                 WHERE d.id = e.job AND NOT isfinite(d.run_at) OFFSET 0));
    v_free := ARRAY(SELECT m FROM unnest(v_mine) AS m
                     WHERE NOT EXISTS (SELECT FROM windlass.after_edge e WHERE e.job = m OFFSET 0));
    -- Without a lane those that have a gate to pass: their turns are of now [F6].
    SELECT array_agg(x.place) INTO v_out
      FROM (SELECT array_agg(d.place ORDER BY d.id) AS places,
                   windlass.lane_for(d.queue, d.priority, d.abilities) IS NOT NULL AS known
              FROM (SELECT x.ctid AS place, x.id, x.queue, x.priority,
                           windlass.abilities_of(x.options) AS abilities
                      FROM windlass.deferred x
                     WHERE x.id = ANY (v_free) AND coalesce(x.not_before <= v_now, true)
                       AND x.replaces IS NULL OFFSET 0) AS d
             GROUP BY d.queue, d.priority, d.abilities) AS g
     CROSS JOIN LATERAL unnest(g.places) AS x (place)
     WHERE g.known OR EXISTS (SELECT FROM windlass.deferred w
                               WHERE w.ctid = x.place
                                 AND windlass.next_gate(w.id, w.queue, w.task, w.options) IS NOT NULL
                              OFFSET 0);
    v_aside := windlass.offer_deferred(coalesce(v_out, '{}'));
    -- The others are due now or later. A new xid: promote's watermark may have passed this moment already.
    UPDATE windlass.deferred d SET run_at = greatest(v_now, d.not_before), xid = pg_current_xact_id()
     WHERE d.id = ANY (v_free);
    IF FOUND OR v_aside THEN
        PERFORM windlass.wake('+');
    END IF;
    RETURN ARRAY(SELECT o FROM unnest(p_on) AS o
                  WHERE EXISTS (SELECT FROM windlass.after_edge e WHERE e.on_job = o OFFSET 0));
END $$;

-- One bounded step behind the ends of jobs that others come after [P12]: the edges that their enders had to
-- leave, and edges that are fresh. A job whose last edge is gone goes on; one that can never run ends as its
-- option says, and one that is cancelled says why in its options: see end_reason. `looked` counts what it
-- looked at; `around`: it has come to the end of both.
-- Callers: the store's promote. May call: worker. Plan: pinned, ordered. Lock: the row that says how far it
-- has come, and the waiting jobs, without waiting; ACCESS SHARE on claim, as in finish; those of serve_after;
-- then those of try_lock_waiting for jobs that it cancels, without waiting.
-- A job that is gone has succeeded, unless its end is noted (see settle).
CREATE OR REPLACE FUNCTION windlass.follow(p_limit int, OUT looked int, OUT around boolean)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    k        windlass.after_look;
    u        windlass.after_due;
    v_state  text;
    v_failed boolean;
    v_policy text;
    d        windlass.deferred;
    v_jobs   bigint[];
    v_mine   bigint[];
    v_due    int := 0;
    v_edges  int := 0;
    v_cancel bigint[] := '{}';
    v_why    text[] := '{}';
    v_ended  boolean := false;
    v_sure   boolean;
BEGIN
    PERFORM windlass.require_read_committed();
    looked := 0;
    around := true;
    SELECT * INTO k FROM windlass.after_look FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    around := k.job = 0;
    SELECT f.looked, f.job, f.on_job, f.sure INTO looked, k.job, k.on_job, v_sure
      FROM windlass.look_at_fresh(k.job, k.on_job, p_limit) AS f;
    -- Where somebody keeps edges fresh there is no hurry to look at the next ones.
    around := (around AND k.job = 0 OR NOT v_sure) AND k.due = 0;
    FOR u IN SELECT * FROM windlass.after_due x WHERE x.id > k.due ORDER BY x.id LIMIT p_limit LOOP
        EXIT WHEN v_edges >= p_limit;
        k.due := u.id;
        v_due := v_due + 1;
        v_jobs := ARRAY(SELECT e.job FROM windlass.after_edge e WHERE e.on_job = u.on_job
                         ORDER BY e.on_job, e.job + 0 LIMIT p_limit);
        -- Before the look: who brings the job back asks those that wait for it first, see rejoin_groups. So
        -- it is seen here that he has, or he sees what becomes of them here.
        v_mine := ARRAY(SELECT w.id FROM windlass.deferred w
                         WHERE w.id = ANY (v_jobs) AND NOT isfinite(w.run_at) FOR UPDATE SKIP LOCKED);
        -- One snapshot: a job that is deleted right now is there, or noted.
        v_state := (SELECT coalesce((SELECT s.state FROM windlass.standing_of(u.on_job) AS s), u.kind,
                                    (SELECT o.kind FROM windlass.ended_otherwise o WHERE o.job = u.on_job),
                                    'succeeded'));
        v_failed := v_state IN ('dead', 'cancelled', 'deleted', 'replaced');
        IF v_failed OR v_state = 'succeeded' THEN
            FOR d IN SELECT w.* FROM windlass.deferred w
                      WHERE w.id = ANY (v_mine)
                        AND (v_failed OR w.options ->> 'otherwise' = 'run_only') LOOP
                v_policy := coalesce(d.options ->> 'otherwise', 'dead');
                IF v_failed AND v_policy = 'run_only' THEN  -- it waits for the others no more
                    DELETE FROM windlass.after_edge e WHERE e.job = d.id AND e.on_job + 0 <> u.on_job;
                END IF;
                CONTINUE WHEN v_failed AND v_policy IN ('run', 'run_only');
                -- One that has yet to replace another does so before it ends: see replace_step.
                CONTINUE WHEN d.replaces IS NOT NULL;
                IF NOT v_failed AND EXISTS (SELECT FROM windlass.after_edge e
                                             WHERE e.job = d.id AND e.on_job + 0 <> u.on_job) THEN
                    DELETE FROM windlass.after_edge e WHERE e.job = d.id AND e.on_job + 0 = u.on_job;
                ELSIF v_policy = 'dead' THEN
                    DELETE FROM windlass.after_edge e WHERE e.job = d.id;
                    PERFORM windlass.bury_deferred(
                        d, format('job %s, which it comes after, is %s', u.on_job, v_state));
                    v_ended := true;
                ELSE
                    v_cancel := v_cancel || d.id;
                    v_why := v_why || CASE WHEN v_failed THEN format('job %s, which it comes after, is %s',
                                                                     u.on_job, v_state)
                                           ELSE 'all jobs that it comes after have succeeded' END;
                END IF;
            END LOOP;
            -- Who runs goes on as after a success; and edges of jobs that wait no more are gone.
            PERFORM windlass.serve_after(ARRAY[u.on_job], p_limit, v_failed, v_mine);
        ELSE  -- it was brought back meanwhile
            DELETE FROM windlass.after_due x WHERE x.id = u.id;
            CONTINUE;
        END IF;
        v_edges := v_edges + cardinality(v_jobs);
        -- The next step goes on here, but not where somebody holds all of these jobs: the ends behind this
        -- one do not wait for that.
        IF NOT EXISTS (SELECT FROM windlass.after_edge e WHERE e.on_job = u.on_job) THEN
            DELETE FROM windlass.after_due x WHERE x.id = u.id;
        ELSIF v_edges >= p_limit
              AND (SELECT count(*) FROM windlass.after_edge e
                    WHERE e.job = ANY (v_jobs) AND e.on_job + 0 = u.on_job) < cardinality(v_jobs) THEN
            k.due := u.id - 1;
        END IF;
    END LOOP;
    -- Those that were left, because somebody holds them, are looked at again in the next round.
    around := around AND v_due < p_limit AND v_edges < p_limit AND NOT v_ended;
    IF v_due < p_limit AND v_edges < p_limit THEN
        k.due := 0;
    END IF;
    looked := looked + v_edges;
    UPDATE windlass.after_look x SET due = k.due, job = k.job, on_job = k.on_job
     WHERE (x.due, x.job, x.on_job) IS DISTINCT FROM (k.due, k.job, k.on_job);
    -- Lanes are taken last, and not for long. Who cannot be cancelled now keeps its edges, and is looked at
    -- again.
    FOR i IN 1..cardinality(v_cancel) LOOP
        IF windlass.try_lock_waiting(v_cancel[i]) THEN
            DELETE FROM windlass.after_edge e WHERE e.job = v_cancel[i];
            UPDATE windlass.deferred x
               SET options = (x.options::jsonb || jsonb_build_object('given_up', v_why[i]))::json
             WHERE x.id = v_cancel[i];
            PERFORM windlass.end_waiting(v_cancel[i], 'cancelled');
            v_ended := true;
        END IF;
    END LOOP;
    IF v_ended AND pg_sequence_last_value('windlass.awaited'::regclass) = 1 THEN
        PERFORM windlass.wake('!');
    END IF;
END $$;

-- Looks at edges that are fresh, up to p_limit, behind one of them. A job that has ended is noted for the
-- caller; the edges of others are fresh no more, once nobody is left who may have ended the job without
-- seeing them. Returns how many it looked at, and the last of them, or 0 at the end; `sure`: none
-- was left fresh.
-- Callers: follow. May call: worker. Plan: pinned, ordered. Lock: edges, without waiting: who ends jobs takes
-- them away, in an order of his own.
-- Who ends a job asks for edges after it has written to outcome, ended_otherwise or parent. So whoever did
-- not see an edge and has yet to commit holds one of these, now that the edge can be seen. They are waited
-- for a moment; where one takes longer, the edges stay fresh.
CREATE OR REPLACE FUNCTION windlass.look_at_fresh(
    INOUT job bigint, INOUT on_job bigint, p_limit int, OUT looked int, OUT sure boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_jobs bigint[];
    v_on   bigint[];
    v_over bigint[];
    v_busy text[];
BEGIN
    sure := true;
    SELECT array_agg(e.job), array_agg(e.on_job), count(*) INTO v_jobs, v_on, looked
      FROM (SELECT x.job, x.on_job FROM windlass.after_edge x
             WHERE x.fresh AND (x.job, x.on_job + 0) > (look_at_fresh.job, look_at_fresh.on_job)
             ORDER BY x.job, x.on_job + 0 LIMIT p_limit) AS e;
    job := CASE WHEN looked < p_limit THEN 0 ELSE v_jobs[looked] END;
    on_job := CASE WHEN looked < p_limit THEN 0 ELSE v_on[looked] END;
    IF looked = 0 THEN
        RETURN;
    END IF;
    FOR i IN 1..10 LOOP
        SELECT array_agg(DISTINCT l.virtualtransaction) INTO v_busy FROM pg_locks l
         WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
           AND l.pid IS DISTINCT FROM pg_backend_pid()
           AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
           AND l.relation IN ('windlass.outcome'::regclass, 'windlass.ended_otherwise'::regclass,
                              'windlass.parent'::regclass)
           AND (i = 1 OR l.virtualtransaction = ANY (v_busy));
        sure := v_busy IS NULL;
        EXIT WHEN sure;
        PERFORM pg_sleep(0.002);
    END LOOP;
    v_over := ARRAY(SELECT o.id FROM (SELECT DISTINCT u.id FROM unnest(v_on) AS u (id)) AS o
                     WHERE coalesce((SELECT s.state FROM windlass.standing_of(o.id) AS s), 'succeeded')
                           IN (:states.FINISHED));
    INSERT INTO windlass.after_due (on_job) SELECT unnest(v_over);
    UPDATE windlass.after_edge e SET fresh = false
     WHERE e.ctid = ANY (ARRAY(SELECT x.ctid FROM windlass.after_edge x
                                WHERE x.job = ANY (v_jobs) AND x.fresh
                                  AND array_position(CASE WHEN sure THEN v_on ELSE v_over END,
                                                     x.on_job) IS NOT NULL
                                  FOR UPDATE SKIP LOCKED));
END $$;

-- Moves a job that waits in deferred to the dead letters.
-- Callers: follow. May call: worker. Plan: the caller's. Lock: its row, held by the caller.
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
