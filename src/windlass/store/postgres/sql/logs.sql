-- The schema itself: its version, its roles, its clock, the few expressions on the logs that every module
-- uses, and the counts of what has ended. The tables are in migrations/0001_logs.sql, which explains roles
-- and lock order.

-- ==== Version and roles ====

-- The version of this schema, the fingerprint of its functions, and that of its first migration.
-- Callers: every role that opens the store. May call: worker, producer, reader. Plan: free. Lock: none.
CREATE OR REPLACE FUNCTION windlass.schema_version(
    OUT version int, OUT functions text, OUT origin text)
LANGUAGE sql SECURITY DEFINER AS $$
    SELECT m.version, m.functions, m.origin FROM windlass.meta m
$$;

-- Notes what was migrated, and on which server, so that a copy on another server is recognized as one.
-- Callers: migrate, the DDL that `windlass sql` prints. May call: owner. Plan: none (run once, by migrate).
-- Lock: the row of meta.
CREATE OR REPLACE FUNCTION windlass.stamp(
    p_version int, p_functions text, p_origin text, p_idempotency_retention float8 DEFAULT NULL,
    p_retention float8 DEFAULT NULL, p_size_limit bigint DEFAULT NULL, p_park_after int DEFAULT NULL)
RETURNS void
LANGUAGE sql AS $$
    UPDATE windlass.meta m
       SET version = p_version, functions = p_functions, origin = p_origin,
           idempotency_retention = coalesce(p_idempotency_retention, m.idempotency_retention),
           retention = coalesce(p_retention, m.retention), size_limit = coalesce(p_size_limit, m.size_limit),
           park_after = coalesce(p_park_after, m.park_after),
           system_identifier = coalesce(m.system_identifier, s.system_identifier),
           database = coalesce(m.database, d.oid), timeline = coalesce(m.timeline, windlass.server_timeline())
      FROM pg_control_system() AS s, pg_database d WHERE d.datname = current_database()
$$;

-- Gives an existing role what it needs to be a 'worker', 'producer' or 'reader', and nothing else [rule 11].
-- Callers: the owner. May call: owner. Plan: none (run once, by the owner). Lock: catalog rows. Each word in
-- angle brackets is replaced by the functions whose headers allow the role.
-- A worker may call all but the owner's.
CREATE OR REPLACE FUNCTION windlass.allow(p_role text, p_kind text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    f record;
BEGIN
    IF p_kind NOT IN ('worker', 'producer', 'reader') THEN
        RAISE EXCEPTION 'unknown kind of role %', quote_literal(p_kind) USING ERRCODE = 'WL005',
            HINT = 'Use worker, producer or reader.';
    END IF;
    INSERT INTO windlass.allowed (role, kind) VALUES (p_role, p_kind) ON CONFLICT DO NOTHING;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', 'windlass', p_role);
    IF p_kind IN ('worker', 'reader') THEN
        EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO %I', 'windlass', p_role);
        EXECUTE format('GRANT SELECT ON ALL SEQUENCES IN SCHEMA %I TO %I', 'windlass', p_role);
    END IF;
    FOR f IN SELECT p.oid::regprocedure AS signature, p.prokind, p.proname FROM pg_proc p
              WHERE p.pronamespace = (SELECT relnamespace FROM pg_class
                                       WHERE oid = 'windlass.meta'::regclass) LOOP
        IF p_kind = 'worker' AND f.proname <> ALL ('{<owner>}')
           OR p_kind = 'producer' AND f.proname = ANY ('{<producer>}')
           OR p_kind = 'reader' AND f.proname = ANY ('{<reader>}') THEN
            EXECUTE format('GRANT EXECUTE ON %s %s TO %I',
                           CASE f.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END,
                           f.signature, p_role);
        END IF;
    END LOOP;
END $$;

-- ==== Time and locks ====

-- The time.
-- Callers: every function here. May call: worker, reader. Plan: the caller's. Lock: none.
-- One function returns it, so that a test can move it.
CREATE OR REPLACE FUNCTION windlass.now() RETURNS timestamptz
LANGUAGE sql VOLATILE AS $$ SELECT clock_timestamp() $$;

-- A moment some seconds from now, within a hundred years.
-- Callers: reoffer, put_off, save_steps, wait_for_signals, decide_wait, send_signal, lead, throttle. May
-- call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.in_seconds(p_seconds float8) RETURNS timestamptz
LANGUAGE sql VOLATILE AS $$
    SELECT windlass.now() + make_interval(secs => least(greatest(p_seconds, 0), 3155760000))
$$;

-- The time in seconds since the epoch, as budgets and schedules count it; p_now where it is given.
-- Callers: the functions of budgets, admission, schedules and rollups, the store's readings.
-- May call: worker, reader. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.unix_time(p_now float8 DEFAULT NULL) RETURNS float8
LANGUAGE sql VOLATILE AS $$ SELECT coalesce(p_now, date_part('epoch', windlass.now())) $$;

-- The first key of this schema's advisory locks: the oid of its lane table.
-- Callers: lane_lock, claim, hand_over, claim_room, try_lock_waiting, hold_unserved, end_expired, adopt_lane,
-- skip_ids. May call: worker. Plan: the caller's.
-- Lock: none.
CREATE OR REPLACE FUNCTION windlass.lock_space() RETURNS int
LANGUAGE sql STABLE AS $$ SELECT ('windlass.lane'::regclass::oid::bigint - 2147483648)::int $$;

-- The lane lock.
-- Callers: lock_lanes_of, end_aside, take_ahead, rotation_touch; claim takes the lock itself.
-- May call: worker. Plan: the caller's.
-- Lock: advisory, (oid of the lane table, lane), until the transaction ends.
-- A claim row is a cursor; written from an old snapshot it would set the lane back, hence READ COMMITTED
-- only.
CREATE OR REPLACE FUNCTION windlass.lane_lock(p_lane int) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM windlass.require_read_committed();
    PERFORM pg_advisory_xact_lock(windlass.lock_space(), p_lane);
END $$;

-- Refuses an isolation level whose snapshot may be older than a lock just taken.
-- Callers: every function that reads what a lock just taken protects. May call: worker.
-- Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.require_read_committed() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'this needs READ COMMITTED, and the transaction is %',
            upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'WL006', HINT = 'Call it outside of that transaction.';
    END IF;
END $$;

-- ==== Expressions on the logs ====

-- The job id of a ready row: the one it carries, or its position [rule 4].
-- Callers: many, the store's readings. May call: worker, reader. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.job_of(r windlass.ready) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT coalesce(r.id, r.lane::bigint << 44 | r.seq) $$;

-- When the job of a ready row was enqueued, however often it was offered since.
-- Callers: many, the store's readings. May call: worker, reader. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.enqueued_of(r windlass.ready) RETURNS timestamptz
LANGUAGE sql IMMUTABLE AS $$ SELECT coalesce(r.enqueued_at, r.offered_at) $$;

-- What of a claim is not finished: its seqs minus those of its outcomes. The one definition [rule 5].
-- Callers: everything that asks whether a claimed job has ended. May call: worker, reader.
-- Plan: pinned. Lock: none.
-- In PL/pgSQL, which keeps its plan: before 18 a SQL function with a subquery is planned by each statement
-- that calls it, over all segments, and that takes five times as long as to run it.
CREATE OR REPLACE FUNCTION windlass.unfinished(p_claim bigint, p_seqs int8multirange) RETURNS int8multirange
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN p_seqs - coalesce((SELECT range_agg(o.seqs) FROM windlass.outcome o WHERE o.claim = p_claim),
                             '{}');
END $$;

-- What one flush ended of a claim.
-- Callers: finish, finish_others, split. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.flushed_in(p_claim bigint, p_flush bigint) RETURNS int8multirange
LANGUAGE sql STABLE AS $$
    SELECT coalesce(range_agg(o.seqs), '{}') FROM windlass.outcome o
     WHERE o.claim = p_claim AND o.flush = p_flush
$$;

-- How many seqs a set holds.
-- Callers: claim_take, hand_over, take_ahead, hole_state, open_claims, finish, depth, adopt_lane,
-- lane_committed_depth, ends_of, waiting_first.
-- May call: worker, reader. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.count_seqs(p_seqs int8multirange) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT coalesce(sum(upper(s) - lower(s)), 0)::bigint FROM unnest(p_seqs) AS s $$;

-- A set of seqs in one piece: what is in the claim row and what was spilled from it.
-- Callers: claim_take, take_ahead, rotation_move, adopt_lane, must_adopt, lane_depth, lane_committed_depth,
-- lane_head, lane_tasks, list_claims, list_spans, hand_over. May call: worker, reader.
-- Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.gather_seqs(
    p_inline int8multirange, p_spilled bigint[]) RETURNS int8multirange
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_spilled IS NULL OR p_spilled = '{}' THEN
        RETURN coalesce(p_inline, '{}');
    END IF;
    RETURN coalesce(p_inline, '{}')
         + coalesce((SELECT range_agg(s.seqs) FROM windlass.seq_set s WHERE s.id = ANY (p_spilled)), '{}');
END $$;

-- Names the current segment and keeps it from being sealed until the transaction ends.
-- Callers: offer, declare_lane, finish, settle, note_failure, import_rows, retry, retry_many, rotation_move,
-- rotation_move_failures, rotation_reclaim, adopt_lane, add_followers, offer_rows. May call: worker.
-- Plan: the caller's.
-- Lock: ROW EXCLUSIVE on the partition of ready.
-- The number is read from a sequence, so no snapshot is too old for it, and it is read again after the lock:
-- a lock on ready_N while N is not current was taken before the switch. rotation_seal looks for exactly
-- those.
CREATE OR REPLACE FUNCTION windlass.pin_segment() RETURNS smallint
LANGUAGE plpgsql AS $$
DECLARE
    v_segment smallint;
BEGIN
    LOOP
        v_segment := pg_sequence_last_value('windlass.segment_current'::regclass);
        CASE v_segment
            WHEN 0 THEN LOCK TABLE ONLY windlass.ready_0 IN ROW EXCLUSIVE MODE;
            WHEN 1 THEN LOCK TABLE ONLY windlass.ready_1 IN ROW EXCLUSIVE MODE;
            WHEN 2 THEN LOCK TABLE ONLY windlass.ready_2 IN ROW EXCLUSIVE MODE;
            WHEN 3 THEN LOCK TABLE ONLY windlass.ready_3 IN ROW EXCLUSIVE MODE;
            WHEN 4 THEN LOCK TABLE ONLY windlass.ready_4 IN ROW EXCLUSIVE MODE;
            WHEN 5 THEN LOCK TABLE ONLY windlass.ready_5 IN ROW EXCLUSIVE MODE;
            WHEN 6 THEN LOCK TABLE ONLY windlass.ready_6 IN ROW EXCLUSIVE MODE;
            WHEN 7 THEN LOCK TABLE ONLY windlass.ready_7 IN ROW EXCLUSIVE MODE;
        END CASE;
        EXIT WHEN pg_sequence_last_value('windlass.segment_current'::regclass) = v_segment;
    END LOOP;
    RETURN v_segment;
END $$;

-- Notifies listeners that a queue has work, that a job has ended, or that hosts should ask what has changed.
-- Callers: offer, place_changed, finish, emit, split, end_parent, add_edges, note_ends, serve_after, follow,
-- finish_others, send_signal, go_on, mark_gates_changed, set_queue, warm, claim_expired, end_expired,
-- cancel_put_off, close_group, offer_rows, request_cancel, assign. May call: worker. Plan: the caller's.
-- Lock: the one that all notifying committers share, at commit. A transaction that has notified cannot be
-- prepared. One that will be says so first (SET LOCAL windlass.notify = off); its jobs are found by polling,
-- within seconds [rule 10].
CREATE OR REPLACE FUNCTION windlass.wake(p_word text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(current_setting('windlass.notify', true), 'on') <> 'off' THEN
        PERFORM pg_notify('windlass', p_word);
    END IF;
END $$;

-- Marks that somebody waits for jobs to end, so that finish notifies.
-- Callers: the store's wait_finished, on each turn, since expire clears the mark. May call: worker. Plan:
-- free. Lock: none.
CREATE OR REPLACE FUNCTION windlass.await_jobs() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF pg_sequence_last_value('windlass.awaited'::regclass) = 0 THEN
        PERFORM setval('windlass.awaited'::regclass, 1, true);
    END IF;
END $$;

-- ==== Counting ends [M7] ====

-- Lets one at a time count. Rotation carries and drops claims under the same lock, so that what one who
-- counts has seen of a claim stays true.
-- Callers: count_ends, which only tries; recount, rotation_judge, rotation_reclaim. May call: worker.
-- Plan: the caller's.
-- Lock: advisory, (oid of ended_count, 0), until the transaction ends.
CREATE OR REPLACE FUNCTION windlass.count_lock(p_try boolean DEFAULT false) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_space int := ('windlass.ended_count'::regclass::oid::bigint - 2147483648)::int;
BEGIN
    PERFORM windlass.require_read_committed();
    IF p_try THEN
        RETURN pg_try_advisory_xact_lock(v_space, 0);
    END IF;
    PERFORM pg_advisory_xact_lock(v_space, 0);
    RETURN true;
END $$;

-- Whether all of a claim has ended by the outcomes in its own segment, where nearly all of them are: one
-- probe (14 us), where unfinished takes eight (65).
-- Callers: uncounted, rotation_judge. May call: worker, reader. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.has_ended(
    p_segment smallint, p_claim bigint, p_seqs int8multirange) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT isempty(p_seqs)
        OR isempty(p_seqs - coalesce((SELECT range_agg(o.seqs) FROM windlass.outcome o
                                       WHERE o.segment = p_segment AND o.claim = p_claim), '{}'))
$$;

-- The claims of a lane that are not counted: the next p_limit beyond p_through, and those in p_open. own: see
-- has_ended.
-- Callers: count_lane, ended, recount. May call: worker, reader. Plan: generic, pinned, ordered. Lock: none.
CREATE OR REPLACE FUNCTION windlass.uncounted(
    p_lane int, p_through bigint, p_open bigint[], p_limit int)
RETURNS TABLE (lane int, id bigint, segment smallint, n int, seqs int8multirange, own boolean)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT p_lane, c.id, c.segment, c.n, c.seqs, windlass.has_ended(c.segment, c.id, c.seqs)
      FROM (SELECT b.* FROM (SELECT x.id, x.segment, x.n, x.seqs FROM windlass.claim x
                              WHERE x.lane = p_lane AND x.id > p_through ORDER BY x.id LIMIT p_limit) AS b
             UNION ALL
            SELECT y.* FROM unnest(p_open) AS u (id)
             CROSS JOIN LATERAL (SELECT x.id, x.segment, x.n, x.seqs FROM windlass.claim x
                                  WHERE x.lane = p_lane AND x.id = u.id OFFSET 0) AS y) AS c;
END $$;

-- How jobs of some claims have ended, by task. p_own: its outcomes are all in its own segment.
-- Callers: count_lane, ended, recount, rotation_judge. May call: worker, reader. Plan: generic, pinned. Lock:
-- none; the segments are true while the caller holds count_lock, or has one snapshot.
CREATE OR REPLACE FUNCTION windlass.ends_of(
    p_lanes int[], p_claims bigint[], p_segments smallint[], p_own boolean[])
RETURNS TABLE (queue text, task text, kind text, n bigint)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH ended AS MATERIALIZED (
        SELECT c.lane, c.seqs AS claimed, c.tasks, o.kind, o.seqs
          FROM unnest(p_lanes, p_claims, p_segments, p_own) AS u (lane, id, segment, own)
         CROSS JOIN LATERAL (SELECT x.lane, x.seqs, x.tasks FROM windlass.claim x
                              WHERE x.segment = u.segment AND x.lane = u.lane AND x.id = u.id OFFSET 0) AS c
         CROSS JOIN LATERAL (SELECT x.kind, x.seqs FROM windlass.outcome x
                              WHERE x.segment = u.segment AND x.claim = u.id
                              UNION ALL
                             SELECT x.kind, x.seqs FROM windlass.outcome x
                              WHERE NOT u.own AND x.claim = u.id AND x.segment <> u.segment OFFSET 0) AS o
         WHERE o.kind IN (:states.FINISHED, 'expired'))
    SELECT l.queue, s.task, s.kind, sum(s.n)::bigint
      FROM (SELECT e.lane, e.tasks[1] AS task, e.kind, windlass.count_seqs(e.seqs) AS n FROM ended e
             WHERE cardinality(e.tasks) = 1
             UNION ALL
            SELECT e.lane, t.task, e.kind, t.n FROM ended e
             CROSS JOIN LATERAL (
                SELECT y.task, count(*) AS n
                  FROM (SELECT z.seq, row_number() OVER () AS i
                          FROM unnest(e.claimed) AS r (span)
                         CROSS JOIN LATERAL generate_series(lower(r.span), upper(r.span) - 1) AS z (seq)) AS p
                  JOIN unnest(e.tasks) WITH ORDINALITY AS y (task, i) ON y.i = p.i
                 WHERE p.seq <@ e.seqs GROUP BY y.task) AS t
             WHERE cardinality(e.tasks) > 1) AS s
      JOIN windlass.lane l ON l.id = s.lane
     GROUP BY l.queue, s.task, s.kind;
END $$;

-- Counts what has ended in a lane: of its next p_limit claims, and of those that were open, each as a whole
-- once nothing of it is unfinished [rule 5]. Returns how many new claims it saw. p_all: outcomes in other
-- segments count, too; without, the few claims that have such stay open.
-- Callers: count_ends, rotation_judge, which hold count_lock. May call: worker. Plan: pinned. Lock: the rows
-- it writes. Claims of a lane are written under its lock, with rising numbers. So when one is seen, all
-- before it are, and none comes later behind `through`; and finished is final.
CREATE OR REPLACE FUNCTION windlass.count_lane(p_lane int, p_limit int, p_all boolean) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    k windlass.counted_lane;
    s record;
BEGIN
    SELECT * INTO k FROM windlass.counted_lane x WHERE x.lane = p_lane;
    SELECT count(*) FILTER (WHERE c.id > coalesce(k.through, 0))::int AS n, max(c.id) AS through,
           coalesce(array_agg(c.id ORDER BY c.id) FILTER (WHERE NOT c.ended), '{}') AS open,
           array_agg(c.lane) FILTER (WHERE c.ended AND c.n > 0) AS lanes,
           array_agg(c.id) FILTER (WHERE c.ended AND c.n > 0) AS ids,
           array_agg(c.segment) FILTER (WHERE c.ended AND c.n > 0) AS segments,
           array_agg(c.own) FILTER (WHERE c.ended AND c.n > 0) AS own
      INTO s
      FROM (SELECT u.*, u.own OR p_all AND isempty(windlass.unfinished(u.id, u.seqs)) AS ended
              FROM windlass.uncounted(p_lane, coalesce(k.through, 0), coalesce(k.open, '{}'), p_limit) AS u
            OFFSET 0) AS c;
    IF s.ids IS NOT NULL THEN
        INSERT INTO windlass.ended_count AS e (queue, task, kind, n)
        SELECT x.queue, x.task, x.kind, x.n
          FROM windlass.ends_of(s.lanes, s.ids, s.segments, s.own) AS x
         ORDER BY 1, 2, 3
        ON CONFLICT (queue, task, kind) DO UPDATE SET n = e.n + excluded.n;
    END IF;
    IF s.n > 0 OR s.open <> k.open THEN
        INSERT INTO windlass.counted_lane AS x (lane, through, open)
        VALUES (p_lane, greatest(s.through, k.through), s.open)
        ON CONFLICT (lane) DO UPDATE SET through = excluded.through, open = excluded.open;
    END IF;
    RETURN s.n;
END $$;

-- One bounded step of counting what has ended: from the lane after p_after on, about p_limit claims; and
-- where it begins, the ends that left no outcome. lane: where the next step goes on, NULL where this was the
-- last lane. more: some lane has more. busy: another one counts, and nothing was done.
-- Callers: the store. May call: worker. Plan: pinned. Lock: that of count_lock, without waiting.
CREATE OR REPLACE FUNCTION windlass.count_ends(
    p_after int, p_limit int, OUT lane int, OUT claims int, OUT more boolean, OUT busy boolean)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_lane int;
    v_n    int;
BEGIN
    claims := 0;
    more := false;
    busy := NOT windlass.count_lock(true);
    IF busy THEN
        RETURN;
    END IF;
    IF p_after = 0 AND EXISTS (SELECT FROM windlass.ended_aside) THEN
        WITH noted AS (DELETE FROM windlass.ended_aside a RETURNING a.*)
        INSERT INTO windlass.ended_count AS e (queue, task, kind, n, gone)
        SELECT a.queue, a.task, a.kind, count(*), count(*) FROM noted a GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
        ON CONFLICT (queue, task, kind) DO UPDATE SET n = e.n + excluded.n, gone = e.gone + excluded.gone;
    END IF;
    FOR v_lane IN SELECT l.id FROM windlass.lane l WHERE l.id > p_after ORDER BY l.id LOOP
        v_n := windlass.count_lane(v_lane, p_limit, false);
        claims := claims + v_n;
        more := more OR v_n = p_limit;
        IF claims >= p_limit THEN
            lane := v_lane;
            RETURN;
        END IF;
    END LOOP;
END $$;

-- How many jobs have ended, by queue, task and kind: what is counted, and what is not yet, up to 10,000
-- claims of a lane. In one snapshot, so that none is missing or counted twice.
-- Callers: the store. May call: worker, reader. Plan: generic, pinned. Lock: none.
CREATE OR REPLACE FUNCTION windlass.ended() RETURNS TABLE (queue text, task text, kind text, n bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT e.queue, e.task, e.kind, sum(e.n)::bigint
      FROM (SELECT c.queue, c.task, c.kind, c.n FROM windlass.ended_count c
             UNION ALL
            SELECT a.queue, a.task, a.kind, 1 FROM windlass.ended_aside a
             UNION ALL
            SELECT x.*
              FROM windlass.lane l LEFT JOIN windlass.counted_lane k ON k.lane = l.id
             CROSS JOIN LATERAL (SELECT array_agg(u.lane) AS lanes, array_agg(u.id) AS ids,
                                        array_agg(u.segment) AS segments, array_agg(u.own) AS own
                                   FROM windlass.uncounted(l.id, coalesce(k.through, 0),
                                                           coalesce(k.open, '{}'), 10000) AS u
                                  WHERE u.n > 0 OFFSET 0) AS u
             CROSS JOIN LATERAL windlass.ends_of(u.lanes, u.ids, u.segments, u.own) AS x
             WHERE u.ids IS NOT NULL) AS e
     GROUP BY e.queue, e.task, e.kind ORDER BY e.queue, e.task, e.kind;
END $$;

-- Counts once more what the logs hold of the claims that are counted, and returns where that differs from
-- what was counted of them: counted, and found. Corrects it. What the logs no longer hold stays as it is.
-- Callers: the store. May call: worker. Plan: pinned. Lock: that of count_lock; only who counts and rotation
-- wait for it.
CREATE OR REPLACE FUNCTION windlass.recount()
RETURNS TABLE (queue text, task text, kind text, counted bigint, found bigint)
LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
BEGIN
    PERFORM windlass.count_lock();
    RETURN QUERY
    WITH logged AS (
        SELECT x.queue, x.task, x.kind, sum(x.n)::bigint AS n
          FROM windlass.counted_lane k
         CROSS JOIN LATERAL (SELECT array_agg(u.lane) AS lanes, array_agg(u.id) AS ids,
                                    array_agg(u.segment) AS segments, array_agg(u.own) AS own
                               FROM windlass.uncounted(k.lane, 0, '{}', 2147483647) AS u
                              WHERE u.n > 0 AND u.id <= k.through AND u.id <> ALL (k.open) OFFSET 0) AS u
         CROSS JOIN LATERAL windlass.ends_of(u.lanes, u.ids, u.segments, u.own) AS x
         WHERE u.ids IS NOT NULL GROUP BY 1, 2, 3),
    wrong AS MATERIALIZED (
        SELECT queue, task, kind, coalesce(e.n - e.gone, 0) AS counted, coalesce(f.n, 0) AS found
          FROM windlass.ended_count e FULL JOIN logged f USING (queue, task, kind)
         WHERE coalesce(e.n - e.gone, 0) <> coalesce(f.n, 0)),
    mended AS (
        INSERT INTO windlass.ended_count AS e (queue, task, kind, n)
        SELECT w.queue, w.task, w.kind, w.found FROM wrong w
        ON CONFLICT (queue, task, kind) DO UPDATE SET n = e.gone + excluded.n)
    SELECT w.queue, w.task, w.kind, w.counted, w.found FROM wrong w ORDER BY 1, 2, 3;
END $$;
