-- Rotation: how a segment of the logs is emptied, with all that is unfinished carried out of it. What is
-- outside the logs is expired in cluster.sql.

-- ==== Rotation, step by step ====

-- Starts, or takes up, the reclaiming of one segment, and returns its number (NULL: nothing is due) and
-- that of the turn, which every later step must name: a rotator that slept meanwhile has an old one and is
-- refused.
-- Callers: the store's rotate. May call: worker. Plan: free. Lock: the rotation row, without waiting (a
-- second rotator finds nothing to do). When the current segment is due and an empty one is ready, that one
-- becomes current first. The number lives in a sequence, so every producer and claim sees the switch at once,
-- whatever its snapshot.
CREATE OR REPLACE FUNCTION windlass.rotation_begin(
    p_force boolean, p_skip smallint[], OUT victim smallint, OUT turn bigint)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    r          windlass.rotation;
    m          windlass.meta;
    v_now      timestamptz := windlass.now();
    v_current  smallint;
    v_next     smallint;
    v_crowded  boolean;
BEGIN
    PERFORM windlass.require_read_committed();
    PERFORM windlass.check_epoch();
    -- Far enough ahead at all times; see skip_ids.
    UPDATE windlass.meta SET ids_from = s.last + windlass.skip_length(s.last)
      FROM (SELECT coalesce(pg_sequence_last_value('windlass.job_id'::regclass), 0) AS last) AS s
     WHERE ids_from < s.last + (1 << 28);
    SELECT * INTO r FROM windlass.rotation FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF r.victim IS NOT NULL AND r.victim <> ALL (p_skip) THEN
        victim := r.victim;
        turn := r.turn;
        RETURN;
    END IF;
    SELECT * INTO m FROM windlass.meta;
    v_current := pg_sequence_last_value('windlass.segment_current'::regclass);
    UPDATE windlass.segment SET opened_at = coalesce(opened_at, v_now), empty = false WHERE no = v_current;
    -- A switch outlives the transaction that made it, so what it had to say about the old one may be missing.
    UPDATE windlass.segment SET closed_at = v_now WHERE NOT empty AND no <> v_current AND closed_at IS NULL;
    v_crowded := windlass.segment_bytes(NULL) > m.size_limit;
    IF p_skip = '{}' AND (
        p_force OR windlass.segment_bytes(v_current) > m.size_limit / 8
        OR (SELECT opened_at FROM windlass.segment WHERE no = v_current)
           <= v_now - make_interval(secs => m.retention / 6))
    THEN
        SELECT no INTO v_next FROM windlass.segment WHERE empty ORDER BY (no + 8 - v_current) % 8 LIMIT 1;
        IF FOUND THEN
            UPDATE windlass.segment SET closed_at = v_now WHERE no = v_current;
            UPDATE windlass.segment SET opened_at = v_now, closed_at = NULL, empty = false WHERE no = v_next;
            PERFORM setval('windlass.segment_current'::regclass, v_next, true);
            v_current := v_next;
        END IF;
    END IF;
    SELECT no INTO victim FROM windlass.segment
     WHERE NOT empty AND no <> v_current AND no <> ALL (p_skip)
       AND (p_force OR v_crowded OR closed_at <= v_now - make_interval(secs => m.retention))
     ORDER BY closed_at LIMIT 1;
    UPDATE windlass.rotation x SET victim = rotation_begin.victim, turn = x.turn + 1, judged = false,
           judged_lane = 0, judged_id = 0, carried_at = NULL, carry_lanes = '{}', carry = '{}'
    RETURNING x.turn INTO turn;
END $$;

-- The size of a segment, or of all (NULL).
-- Callers: rotation_begin. May call: worker, reader. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.segment_bytes(p_segment smallint) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(sum(pg_total_relation_size(i.inhrelid)), 0)::bigint
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
     WHERE i.inhparent IN ('windlass.ready'::regclass, 'windlass.claim'::regclass,
                           'windlass.outcome'::regclass, 'windlass.failure'::regclass,
                           'windlass.result'::regclass)
       AND (p_segment IS NULL OR c.relname LIKE E'%\\_' || p_segment)
$$;

-- Holds the rotation for one step and checks that it is still the same turn.
-- Callers: rotation_seal, rotation_touch, rotation_judge, rotation_move, rotation_move_failures,
-- rotation_reclaim. May call: worker. Plan: the caller's. Lock: the rotation row, until the transaction ends.
CREATE OR REPLACE FUNCTION windlass.rotation_lock(p_turn bigint) RETURNS windlass.rotation
LANGUAGE plpgsql AS $$
DECLARE
    r windlass.rotation;
BEGIN
    PERFORM windlass.require_read_committed();
    SELECT * INTO r FROM windlass.rotation FOR UPDATE;
    IF r.turn IS DISTINCT FROM p_turn OR r.victim IS NULL
       OR r.victim = pg_sequence_last_value('windlass.segment_current'::regclass) THEN
        RAISE EXCEPTION 'rotation % is over', p_turn USING ERRCODE = 'WL008';
    END IF;
    RETURN r;
END $$;

-- NULL once nobody can add ready, failure or result rows to the victim any more; else, in words, who still
-- can.
-- Callers: the store's rotate. May call: worker. Plan: free. Lock: the rotation row.
-- A writer reads the current number again after it has locked the partition (pin_segment). So with another
-- segment current, whoever may still write into this one shows in pg_locks, and nobody new can join.
CREATE OR REPLACE FUNCTION windlass.rotation_seal(p_turn bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    r windlass.rotation;
    v_who text;
BEGIN
    r := windlass.rotation_lock(p_turn);
    SELECT string_agg(coalesce('process ' || l.pid, 'a prepared transaction') || ' holds ' || l.mode, ', ')
      INTO v_who
      FROM pg_locks l
     WHERE l.locktype = 'relation' AND l.relation = format('windlass.%I', 'ready_' || r.victim)::regclass
       AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND l.mode NOT IN ('AccessShareLock', 'RowShareLock') AND l.pid IS DISTINCT FROM pg_backend_pid();
    UPDATE windlass.rotation SET blocked = v_who,
           blocked_since = CASE WHEN v_who IS NULL THEN NULL ELSE coalesce(blocked_since, windlass.now()) END
     WHERE blocked IS DISTINCT FROM v_who;
    RETURN v_who;
END $$;

-- Carries a lane's cursor out of the victim, if it is there.
-- Callers: the store's rotate, for each lane, each in a transaction of its own, after the seal.
-- May call: worker. Plan: free. Lock: the rotation row, then the lane. Claims read the current segment under
-- the lane lock. So after this no claim row of the lane can go into the victim, whether or not there was a
-- cursor to carry.
CREATE OR REPLACE FUNCTION windlass.rotation_touch(p_turn bigint, p_lane int) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    r windlass.rotation;
    c windlass.claim;
BEGIN
    r := windlass.rotation_lock(p_turn);
    PERFORM windlass.lane_lock(p_lane);
    c := windlass.cursor_of(p_lane);
    IF c.segment <> r.victim THEN
        RETURN false;
    END IF;
    c.segment := pg_sequence_last_value('windlass.segment_current'::regclass);
    c.id := windlass.next_claim(c);
    c.worker := 0;
    c.n := 0;
    c.late := false;
    c.seqs := '{}';
    c.tasks := NULL;
    c.snapshot := NULL;
    INSERT INTO windlass.claim SELECT c.*;
    RETURN true;
END $$;

-- Judges the claims of the victim in bounded steps: which are to be carried, and what goes with the others.
-- Callers: the store's rotate, after every lane was touched and counted. May call: worker. Plan: pinned,
-- ordered. Lock: the rotation row, then that of count_lock: no claim goes uncounted [M7].
-- Finished is final, so a claim that is not carried needs no second look. Its evidence goes with the segment,
-- and so must the rows that it speaks of in other segments: a row that no claim covers would be offered
-- again. What was flushed to it is remembered as a number of its worker, so that a flush sent again is known
-- for what it is.
CREATE OR REPLACE FUNCTION windlass.rotation_judge(
    p_turn bigint, p_limit int, OUT removed int, OUT done boolean)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    r        windlass.rotation := windlass.rotation_lock(p_turn);
    v_lanes  int[];
    v_claims bigint[];
    v_own    boolean[];
    v_open   boolean[];
    v_n      int;
BEGIN
    removed := 0;
    done := r.judged;
    IF done THEN
        RETURN;
    END IF;
    PERFORM windlass.count_lock();
    IF r.judged_id = 0 THEN  -- what a turn that was given up has judged stays
        UPDATE windlass.ended_count SET leaving = 0 WHERE leaving <> 0;
    END IF;
    SELECT array_agg(c.lane), array_agg(c.id), array_agg(c.own),
           array_agg(NOT c.own AND NOT isempty(windlass.unfinished(c.id, c.seqs))), count(*)
      INTO v_lanes, v_claims, v_own, v_open, v_n
      FROM (SELECT x.lane, x.id, x.seqs, windlass.has_ended(x.segment, x.id, x.seqs) AS own
              FROM windlass.claim x
             WHERE x.segment = r.victim AND (x.lane, x.id) > (r.judged_lane, r.judged_id)
             ORDER BY x.lane, x.id LIMIT p_limit) AS c;
    -- What had not ended yet when it was counted last.
    PERFORM windlass.count_lane(u.lane, 10000, true)
       FROM (SELECT DISTINCT x FROM unnest(v_lanes) AS x) AS u (lane);
    IF EXISTS (SELECT FROM unnest(v_lanes, v_claims, v_open) AS u (lane, id, open)
                 LEFT JOIN windlass.counted_lane k ON k.lane = u.lane
                WHERE NOT u.open AND (k.lane IS NULL OR u.id > k.through OR u.id = ANY (k.open))) THEN
        RAISE EXCEPTION 'segment % has claims that are not counted yet', r.victim USING ERRCODE = 'WL008';
    END IF;
    UPDATE windlass.ended_count e SET leaving = e.leaving + x.n
      FROM (SELECT array_agg(u.lane) AS lanes, array_agg(u.id) AS ids, array_agg(r.victim) AS segments,
                   array_agg(u.own) AS own
              FROM unnest(v_lanes, v_claims, v_own, v_open) AS u (lane, id, own, open)
             WHERE NOT u.open) AS j
     CROSS JOIN LATERAL windlass.ends_of(j.lanes, j.ids, j.segments, j.own) AS x
     WHERE (e.queue, e.task, e.kind) = (x.queue, x.task, x.kind);
    WITH ended AS MATERIALIZED (
        SELECT c.lane, c.id, c.worker, unnest(c.seqs) AS span
          FROM unnest(v_lanes, v_claims, v_open) AS u (lane, id, open)
          JOIN windlass.claim c ON c.segment = r.victim AND c.lane = u.lane AND c.id = u.id
         WHERE NOT u.open),
    flushed AS (
        UPDATE windlass.worker w SET flushed = greatest(w.flushed, f.flush)
          FROM (SELECT e.worker, max(o.flush) AS flush
                  FROM ended e JOIN windlass.outcome o ON o.segment = r.victim AND o.claim = e.id
                 WHERE e.worker <> 0 GROUP BY e.worker) AS f
         WHERE w.id = f.worker),
    stray AS MATERIALIZED (
        SELECT j.segment, j.place FROM ended e
         CROSS JOIN LATERAL (SELECT x.segment, x.ctid AS place FROM windlass.ready x
                              WHERE x.lane = e.lane AND x.seq >= lower(e.span) AND x.seq < upper(e.span)
                                AND x.segment <> r.victim OFFSET 0) AS j),
    gone AS (
        DELETE FROM windlass.ready d USING stray s WHERE d.segment = s.segment AND d.ctid = s.place
     RETURNING 1)
    SELECT count(*) INTO removed FROM gone;
    done := v_n < p_limit;
    UPDATE windlass.rotation x
       SET judged = rotation_judge.done,
           judged_lane = coalesce(v_lanes[v_n], x.judged_lane),
           judged_id = coalesce(v_claims[v_n], x.judged_id),
           carry_lanes = x.carry_lanes || coalesce((SELECT array_agg(u.lane)
                                                      FROM unnest(v_lanes, v_open) AS u (lane, open)
                                                     WHERE u.open), '{}'),
           carry = x.carry || coalesce((SELECT array_agg(u.id) FROM unnest(v_claims, v_open) AS u (id, open)
                                         WHERE u.open), '{}');
END $$;

-- Moves the unfinished rows of one lane out of the victim, in bounded steps; p_after and next_after walk the
-- lane.
-- Callers: the store's rotate, after the seal. May call: worker. Plan: pinned, ordered. Lock: the rotation
-- row; pins the current segment. No lane lock: a move is one transaction, so any snapshot sees the row
-- exactly once, and its position does not change.
--   waiting                           -> the current segment
--   running, claimed in another one   -> the segment of its claim, so that evidence and row go together
--   running, claimed in the victim    -> stays; rotation_reclaim carries it with its claim
--   neither waiting nor covered       -> offered again: no rule allows it, so it is counted as an alarm
-- The cursor is read before the claims: a position behind it that no claim covers now was covered by none
-- then. One beyond it waits, or was claimed since, in the current segment: it goes there in either case,
-- without a look. Rows are deleted by their ctid: by position the planner may walk the whole lane for each of
-- them [rule 8].
CREATE OR REPLACE FUNCTION windlass.rotation_move(
    p_turn bigint, p_lane int, p_after bigint, p_limit int,
    OUT moved int, OUT offered_again int, OUT next_after bigint)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    r windlass.rotation;
    c         windlass.claim;
    v_bounds  int8range;
    v_done    int8multirange;
    v_holes   int8multirange;
    v_current smallint;
    v_orphans windlass.ready[];
BEGIN
    r := windlass.rotation_lock(p_turn);
    moved := 0;
    offered_again := 0;
    SELECT int8range(min(seq), max(seq), '[]') INTO v_bounds FROM windlass.ready
     WHERE segment = r.victim AND lane = p_lane AND seq > p_after;
    IF lower(v_bounds) IS NULL THEN
        RETURN;
    END IF;
    v_current := windlass.pin_segment();
    c := windlass.cursor_of(p_lane);
    v_holes := windlass.gather_seqs(coalesce(c.young, '{}') + coalesce(c.old, '{}'), c.spilled);
    -- Beyond the cursor only what was taken ahead has ended; that needs no look at the outcomes.
    SELECT coalesce(range_agg(o.seqs), '{}') INTO v_done FROM windlass.outcome o
     WHERE o.lane = p_lane AND lower(v_bounds) <= c.hi;
    v_done := v_done + windlass.gather_seqs(c.ahead, c.ahead_spilled);
    WITH open AS MATERIALIZED (
        SELECT j.* FROM unnest(int8multirange(v_bounds) - v_done) AS gap (span)
         CROSS JOIN LATERAL (SELECT x.ctid AS place, x.seq FROM windlass.ready x
                              WHERE x.segment = r.victim AND x.lane = p_lane
                                AND x.seq >= lower(gap.span) AND x.seq < upper(gap.span)
                              ORDER BY x.seq LIMIT p_limit) AS j
         LIMIT p_limit),
    judged AS MATERIALIZED (
        SELECT o.place, k.id AS claim,
               CASE WHEN k.id IS NOT NULL THEN k.segment
                    WHEN o.seq > c.hi OR o.seq <@ v_holes THEN v_current END AS target
          FROM open o LEFT JOIN LATERAL (SELECT * FROM windlass.place_claim(p_lane, o.seq) WHERE o.seq <= c.hi
                                         OFFSET 0) AS k
            ON true),
    gone AS (
        DELETE FROM windlass.ready d USING judged j
         WHERE d.segment = r.victim AND d.ctid = j.place AND j.target IS DISTINCT FROM r.victim
        RETURNING d.*, j.target),
    put AS (
        INSERT INTO windlass.ready (segment, lane, seq, id, attempt, deaths, task, payload, options,
                                    offered_at, enqueued_at)
        SELECT target, lane, seq, id, attempt, deaths, task, payload, options, offered_at, enqueued_at
          FROM gone
         WHERE target IS NOT NULL
        RETURNING 1)
    SELECT (SELECT count(*) FROM put), (SELECT max(seq) FROM open),
           (SELECT array_agg(ROW (g.seq, g.offered_at, g.id, g.enqueued_at, g.lane, g.segment, g.attempt,
                                  g.deaths, g.task, g.payload, g.options)::windlass.ready ORDER BY g.seq)
              FROM gone g WHERE g.target IS NULL)
      INTO moved, next_after, v_orphans;
    IF v_orphans IS NOT NULL THEN
        offered_again := cardinality(v_orphans);
        RAISE WARNING 'windlass: in lane %, % neither waiting nor claimed, and offered again', p_lane,
            CASE offered_again WHEN 1 THEN '1 row was' ELSE offered_again || ' rows were' END;
        PERFORM windlass.offer(p_lane, offered_again, array_agg(u.task), array_agg(u.payload::text),
                               array_agg(u.options::text), array_agg(windlass.job_of(u)),
                               array_agg(u.attempt), array_agg(u.deaths), array_agg(windlass.enqueued_of(u)))
           FROM unnest(v_orphans) AS u;
    END IF;
END $$;

-- Moves the failures of jobs that have not ended out of the victim, in bounded steps; and the word that
-- failures are forgotten (attempt 0), while a segment that was passed over still holds some of them [O1].
-- Callers: the store's rotate, after the seal. May call: worker. Plan: pinned, ordered. Lock: the rotation
-- row; pins the current segment.
CREATE OR REPLACE FUNCTION windlass.rotation_move_failures(
    p_turn bigint, p_after bigint, p_limit int, OUT moved int, OUT next_after bigint)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    r windlass.rotation;
    v_current smallint;
BEGIN
    r := windlass.rotation_lock(p_turn);
    v_current := windlass.pin_segment();
    WITH jobs AS MATERIALIZED (
        SELECT DISTINCT f.job FROM (SELECT x.job FROM windlass.failure x
                                     WHERE x.segment = r.victim AND x.job > p_after
                                     ORDER BY x.job LIMIT p_limit) AS f),
    gone AS (
        DELETE FROM windlass.failure d USING jobs j
         WHERE d.segment = r.victim AND d.job = j.job
           AND (windlass.is_unfinished(j.job)
                OR d.attempt = 0 AND EXISTS (SELECT FROM windlass.failure f
                                              WHERE f.job = j.job AND f.attempt > 0
                                                AND f.segment <> r.victim))
        RETURNING d.*),
    put AS (
        INSERT INTO windlass.failure (segment, job, at, attempt, type, message, traceback)
        SELECT v_current, job, at, attempt, type, message, traceback FROM gone RETURNING 1)
    SELECT (SELECT count(*) FROM put), (SELECT max(job) FROM jobs) INTO moved, next_after;
END $$;

-- Empties the victim: carries its unfinished claims with their outcomes and jobs, and truncates it p_grace
-- seconds later.
-- Callers: the store's rotate, last. May call: worker. Plan: pinned. Lock: the rotation row; that of
-- count_lock, since who counts locks rows first and reads the partitions then; ACCESS EXCLUSIVE on the
-- victim's partitions, NOWAIT: on failure everything is let go at once. Claims and flushes wait only for what
-- happens here, which is in proportion to the jobs that run, not to the size of the segment.
-- Claims move here and nowhere else, so a flush finds each of them either before, in the victim, or after, in
-- its new segment. TRUNCATE heeds no snapshot: a dump that began before the moves and locks its tables after
-- it would hold what was moved in neither place. The grace is for that: whoever began before the moves has
-- its locks by then.
CREATE OR REPLACE FUNCTION windlass.rotation_reclaim(
    p_turn bigint, p_grace float8, OUT moved int, OUT done boolean)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    r         windlass.rotation := windlass.rotation_lock(p_turn);
    v_current smallint;
BEGIN
    moved := 0;
    done := false;
    IF NOT r.judged THEN
        RAISE EXCEPTION 'segment % has not been judged yet', r.victim USING ERRCODE = 'WL008';
    END IF;
    PERFORM windlass.count_lock();
    EXECUTE format('LOCK TABLE ONLY windlass.%I, ONLY windlass.%I, ONLY windlass.%I, ONLY windlass.%I, ONLY '
                   'windlass.%I IN ACCESS EXCLUSIVE MODE NOWAIT', 'ready_' || r.victim, 'claim_' || r.victim,
                   'outcome_' || r.victim, 'failure_' || r.victim, 'result_' || r.victim);
    IF EXISTS (SELECT FROM windlass.lane l WHERE (windlass.cursor_of(l.id)).segment = r.victim) THEN
        RAISE EXCEPTION 'segment % still holds the cursor of a lane', r.victim USING ERRCODE = 'WL008';
    END IF;
    v_current := windlass.pin_segment();
    WITH open AS (
        SELECT c.lane, unnest(windlass.unfinished(c.id, c.seqs)) AS span
          FROM unnest(r.carry_lanes, r.carry) AS k (lane, id)
          JOIN windlass.claim c ON c.segment = r.victim AND c.lane = k.lane AND c.id = k.id),
    gone AS (
        DELETE FROM windlass.ready d USING open o
         WHERE d.segment = r.victim AND d.lane = o.lane AND d.seq >= lower(o.span) AND d.seq < upper(o.span)
        RETURNING d.*),
    put AS (
        INSERT INTO windlass.ready (segment, lane, seq, id, attempt, deaths, task, payload, options,
                                    offered_at, enqueued_at)
        SELECT v_current, lane, seq, id, attempt, deaths, task, payload, options, offered_at, enqueued_at
          FROM gone
        RETURNING 1)
    SELECT count(*) INTO moved FROM put;
    -- An update of the partition key is a move; these rows are few, and the truncate takes what it leaves
    -- behind. An outcome may come in late, by a snapshot older than its claim's move: the second time takes
    -- it along.
    UPDATE windlass.outcome SET segment = v_current WHERE segment = r.victim AND claim = ANY (r.carry);
    UPDATE windlass.claim c SET segment = v_current FROM unnest(r.carry_lanes, r.carry) AS k (lane, id)
     WHERE c.segment = r.victim AND c.lane = k.lane AND c.id = k.id;
    IF r.carried_at IS NULL THEN
        r.carried_at := windlass.now();
        UPDATE windlass.rotation SET carried_at = r.carried_at;
    END IF;
    IF r.carried_at BETWEEN windlass.now() - make_interval(secs => p_grace) AND windlass.now() THEN
        RETURN;
    END IF;
    done := true;
    EXECUTE format('TRUNCATE ONLY windlass.%I, ONLY windlass.%I, ONLY windlass.%I, ONLY windlass.%I, ONLY '
                   'windlass.%I', 'ready_' || r.victim, 'claim_' || r.victim, 'outcome_' || r.victim,
                   'failure_' || r.victim, 'result_' || r.victim);
    UPDATE windlass.segment SET empty = true, opened_at = NULL, closed_at = NULL WHERE no = r.victim;
    UPDATE windlass.ended_count SET gone = gone + leaving, leaving = 0 WHERE leaving <> 0;
    UPDATE windlass.rotation SET victim = NULL, judged = false, carry = '{}', blocked = NULL,
           blocked_since = NULL;
END $$;
