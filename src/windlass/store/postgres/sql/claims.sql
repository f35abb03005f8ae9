-- Claiming: choosing a lane, leasing its next jobs to a worker, and marking a lane as idle. What limits and
-- budgets take out of a claim is in claims_limits.sql.

-- ==== Choosing a lane ====

-- The lanes of some queues with what a claimer needs to choose between them: priority, how long the head has
-- waited, whether there may be anything at all, whether its queue has a limit, whether fair jobs wait behind
-- it; shut: its queue is paused or cools down; reached: the last number drawn in it; quiet: there is nothing
-- in it, and whoever enqueues the next job will call; abilities: what its jobs need.
-- Callers: the store's claim, at most once a second. May call: worker, reader.
-- Plan: generic, pinned, ordered. Lock: none.
-- One statement for all of them, each table probed by its index [rule 8]. The idle mark is read before the
-- position, as in mark_idle [rule 10]: a number that is drawn later is drawn by one who sees the mark. The
-- cursor is as old as the statement, or older, so that nothing that waits is overlooked.
CREATE OR REPLACE FUNCTION windlass.lane_heads(p_queues text[])
RETURNS TABLE (lane int, queue text, priority smallint, waited float8, waiting boolean, limited boolean,
               ring boolean, shut boolean, reached bigint, quiet boolean, abilities text)
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    RETURN QUERY
    SELECT l.id, l.queue, l.priority,
           CASE WHEN d.n > 0
                THEN coalesce(date_part('epoch', windlass.now() - windlass.lane_head(l.id, 1)), 0)
                ELSE 0 END,
           d.n > 0, q.concurrency IS NOT NULL OR q.governor,
           EXISTS (SELECT FROM windlass.held h
                    WHERE h.queue = l.queue AND h.priority = l.priority
                      AND windlass.abilities_of(h.options) = l.abilities AND h.fair_key IS NOT NULL OFFSET 0),
           q.paused OR q.cool_until IS NOT NULL AND windlass.cooldown_left(q) > 0, d.reached,
           d.idle AND d.n = 0, l.abilities
      FROM unnest(p_queues) AS u (name)
     CROSS JOIN LATERAL (SELECT * FROM windlass.queue x WHERE x.name = u.name OFFSET 0) AS q
     CROSS JOIN LATERAL (SELECT * FROM windlass.lane x WHERE x.queue = u.name OFFSET 0) AS l
     CROSS JOIN LATERAL (
         SELECT p.idle, p.reached,
                CASE WHEN c.hi IS NULL THEN windlass.lane_depth(l.id)  -- which says what is wrong
                     ELSE p.reached - c.hi + c.holes - c.ahead_n END AS n
           FROM (SELECT m.idle, coalesce(pg_sequence_last_value(l.position), 0) AS reached
                   FROM (SELECT pg_sequence_last_value(l.idle) = 1 AS idle OFFSET 0) AS m OFFSET 0) AS p
           LEFT JOIN LATERAL (SELECT x.hi, x.holes, x.ahead_n FROM windlass.claim x WHERE x.lane = l.id
                               ORDER BY x.id DESC LIMIT 1) AS c ON true
          OFFSET 0) AS d;
END $$;

-- Those of some lanes in which numbers were drawn beyond what a claimer has seen there (moved), and every
-- lane with a number above p_above, which it may not know yet.
-- Callers: the store's claim, every few seconds. May call: worker, reader.
-- Plan: generic, pinned, ordered. Lock: none.
-- So a claimer that serves ten thousand queues finds what a lost wake-up was for, at the cost of a look at
-- each sequence [rule 10].
CREATE OR REPLACE FUNCTION windlass.moved_lanes(p_lanes int[], p_reached bigint[], p_above int)
RETURNS TABLE (lane int, queue text, moved boolean)
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    RETURN QUERY
    SELECT k.lane, l.queue, true
      FROM unnest(p_lanes, p_reached) AS k (lane, reached)
     CROSS JOIN LATERAL (SELECT x.queue, x.position FROM windlass.lane x WHERE x.id = k.lane OFFSET 0) AS l
     WHERE coalesce(pg_sequence_last_value(l.position), 0) <> k.reached
     UNION ALL
    SELECT l.id, l.queue, false FROM windlass.lane l WHERE l.id > p_above;
END $$;

-- Since when the longest waiting of a lane's first p_first jobs has been ready, or NULL. A fair job brings
-- its wait along, so the first of the lane need not be the oldest.
-- Callers: depth, lane_heads, queue_load. May call: worker, reader. Plan: generic, pinned, ordered.
-- Lock: none.
-- Late jobs in holes are not looked at: they are claimed within moments.
CREATE OR REPLACE FUNCTION windlass.lane_head(p_lane int, p_first int) RETURNS timestamptz
LANGUAGE plpgsql AS $$
DECLARE
    c       windlass.claim := windlass.cursor_of(p_lane);
    v_ahead int8multirange := windlass.gather_seqs(c.ahead, c.ahead_spilled);
BEGIN
    RETURN (SELECT min(f.offered_at)
              FROM (SELECT r.offered_at FROM windlass.ready r
                     WHERE r.lane = p_lane AND r.seq > c.hi AND NOT r.seq <@ v_ahead ORDER BY r.seq
                     LIMIT p_first) AS f);
END $$;

-- ==== Claiming ====

-- Leases the next jobs of one lane to one worker, commits, and only then answers [rule 2].
-- Callers: the store, outside of any transaction. May call: worker. Plan: none (with settings it could not
-- commit). Lock: the lane, then what claim_take takes, then what the filters do, among it the rows of buckets
-- in their order; before the lane that of its queue, where that has a limit (p_limited).
--
-- It is a procedure, because a function could not commit: its jobs would be given out under the caller's
-- isolation level, and its lane would stay locked for as long as the caller leaves the answer unread. Waiting
-- for the lane's lock, p_wait ms at most, shares a lane evenly between workers. If the bucket of its queue is
-- locked for longer, the claim rolls back, so that it does not keep the lane; jobs that need tokens of such a
-- bucket are put aside. If every job of a round was put aside, it tries again, up to ten rounds, each in its
-- own transaction, since others may be behind them.
--
-- p_needs: which tokens the jobs of some tasks need, see claim_tokens. p_limited: its queue has a limit.
-- status: that of claim_take, or
--   'alone': one job, and the lane is still marked as idle;
--   'busy': the lane, its queue or the queue's bucket was locked for p_wait ms;
--   'full', 'slow': see claim_room; 'aside': every job of ten rounds was put aside.
-- offered: when each attempt was offered, NULL where that is when its job was enqueued. steps: those of the
-- jobs that have run before, see steps_of. starts: see claim_tokens.
CREATE OR REPLACE PROCEDURE windlass.claim(
    p_lane int, p_worker bigint, p_limit int, p_wait int,
    INOUT status text DEFAULT NULL, INOUT claim bigint DEFAULT NULL, INOUT seqs bigint[] DEFAULT NULL,
    INOUT ids bigint[] DEFAULT NULL, INOUT tasks text[] DEFAULT NULL, INOUT payloads text[] DEFAULT NULL,
    INOUT options text[] DEFAULT NULL, INOUT attempts smallint[] DEFAULT NULL,
    INOUT deaths smallint[] DEFAULT NULL, INOUT enqueued float8[] DEFAULT NULL,
    INOUT offered float8[] DEFAULT NULL, INOUT steps text DEFAULT NULL, INOUT starts text DEFAULT NULL,
    p_needs json DEFAULT NULL, p_limited boolean DEFAULT false)
LANGUAGE plpgsql AS $$
DECLARE
    v_space  int := windlass.lock_space();
    v_limit  int;
    v_busy   boolean;
    v_before text;
    v_taken  record;
    v_jobs   bigint[];
    v_ids    bigint[];
    v_stays  int[];  -- the places of the jobs that stay; NULL: all of them, and no filter has run
BEGIN
    FOR v_round IN 1..10 LOOP
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
        status := 'locked';
        v_limit := p_limit;
        v_busy := false;
        v_stays := NULL;
        IF p_limited AND NOT windlass.queue_lock(p_lane, p_wait) THEN
            status := 'busy';
        ELSIF NOT pg_try_advisory_xact_lock(v_space, p_lane) THEN
            BEGIN
                v_before := current_setting('lock_timeout');
                PERFORM set_config('lock_timeout', p_wait || 'ms', true);
                PERFORM pg_advisory_xact_lock(v_space, p_lane);
                PERFORM set_config('lock_timeout', v_before, true);
            EXCEPTION WHEN lock_not_available THEN
                status := 'busy';
            END;
        END IF;
        IF p_limited AND status <> 'busy' THEN
            SELECT r.room, coalesce(r.status, claim.status) INTO v_limit, status
              FROM windlass.claim_room(p_lane, p_limit) AS r;
        END IF;
        IF status = 'locked' THEN
            v_taken := windlass.claim_take(p_lane, p_worker, v_limit, p_limited);
            status := v_taken.status;
            claim := v_taken.claim;
            IF status = 'jobs' AND (v_taken.expires OR v_taken.gated OR p_needs IS NOT NULL) THEN
                SELECT p.jobs, p.stays INTO v_jobs, v_stays
                  FROM windlass.claim_places(p_lane, v_taken.seqs, v_taken.ids) AS p;
                IF v_taken.expires THEN
                    v_stays := windlass.claim_expired(p_lane, claim, v_stays, v_taken.seqs, v_jobs,
                                                      v_taken.options);
                END IF;
                IF v_taken.gated AND v_stays <> '{}' THEN
                    v_stays := windlass.claim_gated(p_lane, claim, v_stays, v_taken.seqs, v_jobs,
                                                    v_taken.tasks, v_taken.options, v_taken.enqueued);
                END IF;
                IF p_needs IS NOT NULL AND v_stays <> '{}' THEN
                    SELECT t.stays, t.busy, t.starts INTO v_stays, v_busy, starts
                      FROM windlass.claim_tokens(p_lane, claim, p_needs, v_stays, v_taken.seqs, v_jobs,
                                                 v_taken.tasks, v_taken.payloads, v_taken.options,
                                                 p_wait) AS t;
                END IF;
                status := CASE WHEN v_stays = '{}' THEN 'aside' ELSE 'jobs' END;
            END IF;
            v_ids := CASE WHEN v_stays IS NULL THEN v_taken.ids
                          ELSE windlass.at_places(v_taken.ids, v_stays) END;
            IF status = 'jobs' AND p_limited AND NOT v_busy THEN
                v_busy := NOT windlass.claim_count(p_lane, claim, cardinality(v_ids), p_wait);
            END IF;
            IF v_busy THEN
                ROLLBACK;
                status := 'busy';
                claim := NULL;
            ELSIF status = 'jobs' AND array_remove(v_ids, NULL) <> '{}' THEN
                PERFORM windlass.claim_drop_passes(array_remove(v_ids, NULL));
            END IF;
        END IF;
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
        IF status = 'jobs' AND EXISTS (SELECT FROM windlass.task_setting s
                                        WHERE s.concurrency IS NOT NULL) THEN
            IF v_stays IS NULL THEN
                SELECT p.jobs, p.stays INTO v_jobs, v_stays
                  FROM windlass.claim_places(p_lane, v_taken.seqs, v_taken.ids) AS p;
            END IF;
            v_stays := windlass.claim_recheck(p_lane, p_worker, claim, v_stays, v_taken.seqs, v_jobs,
                                              v_taken.tasks, v_taken.options, v_taken.enqueued);
            status := CASE WHEN v_stays = '{}' THEN 'aside' ELSE 'jobs' END;
        END IF;
        IF status = 'jobs' THEN
            seqs := v_taken.seqs;
            ids := v_taken.ids;
            tasks := v_taken.tasks;
            payloads := v_taken.payloads;
            options := v_taken.options;
            attempts := v_taken.attempts;
            deaths := v_taken.deaths;
            enqueued := v_taken.enqueued;
            offered := v_taken.offered;
            IF cardinality(v_stays) < cardinality(seqs) THEN
                seqs := windlass.at_places(seqs, v_stays);
                ids := windlass.at_places(ids, v_stays);
                tasks := windlass.at_places(tasks, v_stays);
                payloads := windlass.at_places(payloads, v_stays);
                options := windlass.at_places(options, v_stays);
                attempts := windlass.at_places(attempts, v_stays);
                deaths := windlass.at_places(deaths, v_stays);
                enqueued := windlass.at_places(enqueued, v_stays);
                offered := windlass.at_places(offered, v_stays);
            END IF;
            IF array_remove(ids, NULL) <> '{}' THEN
                steps := windlass.steps_of(array_remove(ids, NULL));
            END IF;
            status := CASE WHEN v_taken.alone THEN 'alone' ELSE 'jobs' END;
        END IF;
        COMMIT;
        EXIT WHEN status <> 'aside';
    END LOOP;
END $$;

-- The places of a claim's jobs in its arrays (`stays`), and their ids by place. Until the claim answers, a
-- job is known by its place: each filter is given the places of the jobs that stay, and the columns that it
-- reads, and returns the places of those that still do.
-- Callers: claim, before the first filter. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.claim_places(
    p_lane int, p_seqs bigint[], p_ids bigint[], OUT stays int[], OUT jobs bigint[])
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    stays := ARRAY(SELECT generate_subscripts(p_seqs, 1));
    jobs := ARRAY(SELECT coalesce(u.id, p_lane::bigint << 44 | u.seq)
                    FROM unnest(p_seqs, p_ids) AS u (seq, id));
END $$;

-- The elements of an array at some places, in the order of the places.
-- Callers: claim, claim_gated, claim_recheck, claim_tokens, handed_recheck. May call: worker. Plan: the
-- caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.at_places(p_array anyarray, p_places int[]) RETURNS anyarray
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN ARRAY(SELECT p_array[u] FROM unnest(p_places) AS u);
END $$;

-- The body of a claim: reads the cursor and the next jobs, fences the worker, writes the new cursor.
-- Callers: claim, which holds the lane lock and commits at once. May call: worker. Plan: generic, pinned,
-- ordered. Lock: the worker's life row FOR SHARE.
--
-- status:
--   'jobs': the arrays have an element for each; with another status they mean nothing;
--   'empty'; 'paused': or cooling;
--   'pending': numbers are drawn that are not visible yet, so look again soon;
--   'limited': its queue has a limit that the caller did not know of, see claim_room;
--   'nobody': there are jobs, and worker 0, nobody, rehearses.
-- claim: the lane's newest; where there are no jobs, it tells whether others have claimed since the caller
-- last looked. offered: when each was offered, NULL where its job was enqueued then. gated: some task has a
-- limit, see claim_gated. expires: some job may have waited too long, see claim_expired. alone: see the end.
--
-- The order of its statements is its proof [rule 3]:
--   1. what is published about dead holes is read, then holes are probed, with xmin in the same snapshot;
--   2. the position of the sequence is read, then the jobs beyond the cursor;
--   3. only then does the transaction get its xid (by the fence). So every producer that could own a gap seen
--      here has a smaller xid, and the own xid is a horizon for those gaps. A transaction that already has an
--      xid is refused.
CREATE OR REPLACE FUNCTION windlass.claim_take(
    p_lane int, p_worker bigint, p_limit int, p_limited boolean DEFAULT false,
    OUT status text, OUT claim bigint, OUT seqs bigint[], OUT ids bigint[], OUT tasks text[],
    OUT payloads text[], OUT options text[], OUT attempts smallint[], OUT deaths smallint[],
    OUT enqueued float8[], OUT offered float8[], OUT gated boolean, OUT alone boolean, OUT expires boolean)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    c          windlass.claim;          -- the cursor: the lane's newest claim
    h          record;
    v_lane     windlass.lane;
    v_now      timestamptz := windlass.now();
    v_position bigint;                  -- the last number drawn
    v_probed   timestamptz;             -- when the holes were last looked at
    v_late     bigint[] := '{}';        -- jobs that have turned up in holes
    v_dead     bigint;                  -- holes with a horizon up to this are dead; NULL: nobody can tell
    v_ahead    int8multirange;          -- what flushes have claimed beyond the cursor
    v_taken    int8multirange := '{}';  -- what this claim takes
    v_gaps     int8multirange := '{}';  -- what it passes without seeing a job: new holes
    v_first    smallint := 0;           -- the segments that are read, from
    v_last     smallint := 7;           -- and to
    v_hi       bigint;                  -- the new cursor
    v_n        int;
    v_keep     int;                     -- so many of them, where a job must be claimed alone
    v_xid      bigint;
    v_unique   boolean := false;        -- some job has a unique key
    v_tasks    text[];                  -- one name, where all jobs are of one task
BEGIN
    SELECT l AS lane, q.concurrency IS NOT NULL OR q.governor AS limited,
           EXISTS (SELECT FROM windlass.task_setting t
                    WHERE t.concurrency IS NOT NULL OR t.key_concurrency IS NOT NULL) AS gated INTO h
      FROM windlass.lane l JOIN windlass.queue q ON q.name = l.queue
     WHERE l.id = p_lane AND NOT q.paused AND (q.cool_until IS NULL OR windlass.cooldown_left(q) = 0);
    IF NOT FOUND THEN
        status := 'paused';
        RETURN;
    ELSIF h.limited AND NOT p_limited THEN
        status := 'limited';
        RETURN;
    END IF;
    v_lane := h.lane;
    gated := h.gated;
    IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
        RAISE EXCEPTION 'a claim must be the first write of its transaction' USING ERRCODE = 'WL006',
            HINT = 'CALL windlass.claim outside of a transaction.';
    END IF;
    -- As in cursor_of, whose settings are those of this function.
    SELECT * INTO c FROM windlass.claim x WHERE x.lane = p_lane ORDER BY x.id DESC LIMIT 1;
    IF NOT FOUND THEN
        c := windlass.cursor_of(p_lane);
    END IF;
    v_ahead := windlass.gather_seqs(c.ahead, c.ahead_spilled);
    v_probed := c.probed_at;
    -- 1. Holes. v_dead stays NULL unless this claim sees every visible job in them.
    IF c.holes > 0 AND v_now NOT BETWEEN c.probed_at AND c.probed_at + windlass.probe_pause(c) THEN
        v_probed := v_now;
        v_dead := pg_sequence_last_value('windlass.horizon'::regclass);
        SELECT coalesce(array_agg(f.seq), '{}') AS late,
               greatest(v_dead, pg_snapshot_xmin(pg_current_snapshot())::text::bigint) AS dead
          INTO h
          FROM (SELECT w.seq
                  FROM unnest(windlass.gather_seqs(coalesce(c.young, '{}') + coalesce(c.old, '{}'),
                                              c.spilled)) AS hole (span)
                 CROSS JOIN LATERAL (SELECT r.seq FROM windlass.ready r
                                      WHERE r.lane = p_lane AND r.seq >= lower(hole.span)
                                        AND r.seq < upper(hole.span)
                                      ORDER BY r.seq LIMIT p_limit) AS w
                 LIMIT p_limit) AS f;
        v_late := h.late;
        v_dead := CASE WHEN cardinality(v_late) < p_limit THEN h.dead END;
    END IF;
    -- 2. The jobs beyond the cursor, after the late ones.
    v_position := coalesce(pg_sequence_last_value(v_lane.position), 0);
    IF v_position < greatest(c.hi, upper(v_ahead) - 1) THEN
        RAISE EXCEPTION 'the sequence of lane % stands at %, below its cursor %', p_lane, v_position,
            greatest(c.hi, upper(v_ahead) - 1)
            USING ERRCODE = 'WL004', HINT = 'The sequence was set back: SELECT windlass.adopt() mends it.';
    END IF;
    -- The last jobs of a lane are mostly in the current segment: where every number drawn beyond the cursor
    -- is there, none is elsewhere. Each segment costs about as much as a job.
    IF v_position - c.hi <= p_limit - cardinality(v_late) THEN
        v_first := pg_sequence_last_value('windlass.segment_current'::regclass);
        v_last := v_first;
    END IF;
    LOOP
        SELECT array_agg(j.seq), array_agg(j.id), array_agg(j.task), array_agg(j.payload::text),
               array_agg(j.options::text), array_agg(j.attempt), array_agg(j.deaths),
               array_agg(date_part('epoch', coalesce(j.enqueued_at, j.offered_at))),
               array_agg(CASE WHEN j.enqueued_at IS NOT NULL THEN date_part('epoch', j.offered_at) END),
               coalesce(bool_or(j.options::text LIKE '%"unique_key"%'), false),
               bool_or(j.options::text LIKE '%"expires_at"%')
          INTO seqs, ids, tasks, payloads, options, attempts, deaths, enqueued, offered, v_unique, expires
          FROM (SELECT * FROM windlass.ready r
                 WHERE r.segment BETWEEN v_first AND v_last
                   AND r.lane = p_lane AND r.seq > c.hi AND NOT r.seq <@ v_ahead
                 ORDER BY r.seq LIMIT p_limit - cardinality(v_late)) AS j;
        v_n := coalesce(cardinality(seqs), 0);
        EXIT WHEN v_first < v_last OR v_n >= v_position - c.hi AND v_n = coalesce(seqs[v_n] - c.hi, 0);
        v_first := 0;
        v_last := 7;
    END LOOP;
    IF cardinality(v_late) > 0 THEN
        SELECT array_agg(j.seq) || seqs, array_agg(j.id) || ids, array_agg(j.task) || tasks,
               array_agg(j.payload::text) || payloads, array_agg(j.options::text) || claim_take.options,
               array_agg(j.attempt) || attempts, array_agg(j.deaths) || claim_take.deaths,
               array_agg(date_part('epoch', coalesce(j.enqueued_at, j.offered_at))) || enqueued,
               array_agg(CASE WHEN j.enqueued_at IS NOT NULL THEN date_part('epoch', j.offered_at) END)
                   || offered,
               v_unique OR bool_or(coalesce(j.options::text, '') LIKE '%"unique_key"%'),
               expires OR bool_or(j.options::text LIKE '%"expires_at"%')
          INTO seqs, ids, tasks, payloads, options, attempts, deaths, enqueued, offered, v_unique, expires
          FROM (SELECT * FROM windlass.ready r WHERE r.lane = p_lane AND r.seq = ANY (v_late)
                 ORDER BY r.seq) AS j;
    END IF;
    v_n := coalesce(cardinality(seqs), 0);
    -- A job that has seen a worker die is claimed alone [C8].
    IF v_n > 1 AND 0 < ANY (deaths) THEN
        SELECT greatest(min(d.i) - 1, 1) INTO v_keep FROM unnest(deaths) WITH ORDINALITY AS d (deaths, i)
         WHERE d.deaths > 0;
        IF v_keep < cardinality(v_late) THEN
            v_dead := NULL;
        END IF;
        seqs := seqs[:v_keep];
        ids := ids[:v_keep];
        tasks := tasks[:v_keep];
        payloads := payloads[:v_keep];
        options := options[:v_keep];
        attempts := attempts[:v_keep];
        deaths := deaths[:v_keep];
        enqueued := enqueued[:v_keep];
        offered := offered[:v_keep];
        v_n := v_keep;
    END IF;
    -- What was taken, and what was passed without being seen.
    IF v_n = 0 THEN
        -- An idle poll passes burnt numbers, so that depth falls back to 0; but only after the lane was quiet
        -- for a second: most numbers that are not visible yet are about to be, and jobs in holes are found
        -- later than others.
        v_hi := CASE WHEN v_now NOT BETWEEN c.claimed_at AND c.claimed_at + interval '1 second'
                     THEN v_position ELSE c.hi END;
    ELSE
        v_hi := greatest(c.hi, seqs[v_n]);
    END IF;
    IF v_n > 0 AND v_n = v_hi - c.hi AND cardinality(v_late) = 0 THEN
        v_taken := int8multirange(int8range(c.hi + 1, v_hi + 1));
    ELSE
        IF v_n > 0 THEN
            SELECT range_agg(int8range(s, s + 1)) INTO v_taken FROM unnest(seqs) AS s;
        END IF;
        v_gaps := int8multirange(int8range(c.hi + 1, v_hi + 1)) - v_taken - v_ahead;
    END IF;
    -- Nothing to write, unless dead holes can be dropped, or young holes that a cancel left need a horizon.
    -- The look at spilled holes is a statement of its own: in one condition with the rest it would be run for
    -- each claim.
    IF v_n = 0 AND v_hi = c.hi AND NOT coalesce(v_dead >= c.old_horizon, false)
       AND NOT (c.old IS NULL AND c.young IS NOT NULL) THEN
        IF NOT EXISTS (SELECT FROM windlass.seq_set WHERE id = ANY (c.spilled) AND horizon <= v_dead) THEN
            status := windlass.mark_idle(v_lane, c.hi, c.holes);
            claim := c.id;
            RETURN;
        END IF;
    END IF;
    IF p_worker = 0 THEN  -- a rehearsal, for which nobody may be told of an error
        status := 'nobody';
        RETURN;
    END IF;
    -- 3. The fence brings the xid; then the claim and the new cursor, in one row.
    PERFORM windlass.worker_fence(p_worker);
    -- Where the fence had to wait, a limit that was set meanwhile counts [F3]. What is set within the few
    -- milliseconds of a claim that did not wait is as if it were set after it.
    IF windlass.now() > v_now + interval '5 milliseconds' THEN
        SELECT q.concurrency IS NOT NULL OR q.governor AS limited,
               EXISTS (SELECT FROM windlass.task_setting t
                        WHERE t.concurrency IS NOT NULL OR t.key_concurrency IS NOT NULL) AS gated INTO h
          FROM windlass.queue q WHERE q.name = v_lane.queue;
        gated := h.gated;
        IF h.limited AND NOT p_limited THEN
            status := 'limited';
            RETURN;
        END IF;
    END IF;
    v_xid := pg_current_xact_id()::text::bigint;
    -- Where no older transaction is under way any more, a gap that is still not visible is proven burnt right
    -- here.
    IF NOT isempty(v_gaps) THEN
        SELECT CASE WHEN pg_snapshot_xmin(pg_current_snapshot())::text::bigint >= v_xid
                         AND NOT EXISTS (SELECT FROM unnest(v_gaps) AS gap (span)
                                          CROSS JOIN LATERAL (SELECT FROM windlass.ready r
                                                               WHERE r.lane = p_lane
                                                                 AND r.seq >= lower(gap.span)
                                                                 AND r.seq < upper(gap.span) LIMIT 1) AS late)
                    THEN '{}' ELSE v_gaps END INTO v_gaps;
    END IF;
    claim := windlass.next_claim(c);
    v_tasks := CASE WHEN tasks[1] = ALL (tasks) THEN tasks[:1] ELSE tasks END;
    IF c.holes = 0 AND isempty(v_gaps) AND isempty(v_ahead) THEN
        INSERT INTO windlass.claim (segment, id, lane, worker, hi, n, seqs, tasks, claimed_at, probed_at,
                                    snapshot)
        VALUES (pg_sequence_last_value('windlass.segment_current'::regclass), claim, p_lane, p_worker, v_hi,
                v_n, v_taken, v_tasks, v_now, v_probed, CASE WHEN v_unique THEN pg_current_snapshot() END);
        c.holes := 0;
    ELSE
        SELECT * INTO h FROM windlass.hole_state(c, v_taken, v_gaps, v_dead, v_xid);
        v_ahead := v_ahead * int8multirange(int8range(v_hi + 1, NULL));
        INSERT INTO windlass.claim (segment, id, lane, worker, hi, n, late, seqs, claimed_at, probed_at,
                                    young, old, old_horizon, spilled, holes, ahead, ahead_spilled, ahead_n,
                                    snapshot, tasks)
        VALUES (pg_sequence_last_value('windlass.segment_current'::regclass), claim, p_lane, p_worker, v_hi,
                v_n, cardinality(v_late) > 0, v_taken, v_now, v_probed, h.young, h.old, h.horizon, h.spilled,
                h.holes, nullif(c.ahead * int8multirange(int8range(v_hi + 1, NULL)), '{}'),
                CASE WHEN NOT isempty(v_ahead) THEN c.ahead_spilled END, windlass.count_seqs(v_ahead),
                CASE WHEN v_unique THEN pg_current_snapshot() END, v_tasks);
        c.holes := h.holes;
    END IF;
    IF v_n = 0 THEN
        status := windlass.mark_idle(v_lane, v_hi, c.holes);
    ELSE
        status := 'jobs';
        -- A lone job, with nothing drawn beyond it, after a pause: the mark stays, so the next one will wake
        -- somebody, and nobody need look for it before [rule 10]. Who holds the lane is the only one to
        -- change the mark. Jobs that follow closely clear it: they come in batches, and do not notify.
        IF pg_sequence_last_value(v_lane.idle) = 1 THEN
            alone := v_n = 1 AND c.holes = 0 AND v_now > c.claimed_at + interval '2 milliseconds'
                     AND pg_sequence_last_value(v_lane.position) = v_hi;
            IF NOT alone THEN
                PERFORM setval(v_lane.idle, 0, true);
            END IF;
        END IF;
    END IF;
END $$;

-- Offers jobs that have passed their last gate, and claims for this worker what it has room for: `handed`
-- [F3] [F6]. A claim like any other, except that it takes what its own transaction has just put at the back
-- of the lane. So it judges no hole, and may have its xid already (see claim_take): hi stays below every
-- number that it does not see, and `ahead` has what it takes beyond.
-- Callers: admit_freed, in the transaction of a flush, which has proven that the worker lives and commits
-- before it answers. May call: worker. Plan: the caller's. Lock: the lane, without waiting: where somebody
-- has it, the job stays there like any other; those of waiting_first; then those of offer.
--
-- p_rooms: for how many jobs of each of p_queues there is room; p_runs: how many others of its key may follow
-- each of them (see add_followers); p_tokens: tasks whose jobs need tokens.
--
-- Nobody is overtaken [C2]. What waits in the lane goes first: where others may follow, the worker is handed
-- that, and else nothing. Nothing is handed over either while others of its queue wait in another lane.
-- Left to claims are jobs that need tokens, parts, those that may have waited too long [E8], those that have
-- seen a worker die [C8], those that need an ability which the worker lacks, and those of queues that are
-- limited, paused or cooling.
CREATE OR REPLACE FUNCTION windlass.hand_over(
    p_worker bigint, p_rows windlass.held[], p_queues text[], p_rooms int[], p_tokens text[], p_runs int[])
RETURNS windlass.handed[]
LANGUAGE plpgsql AS $$
DECLARE
    g          record;
    c          windlass.claim;  -- the cursor of the lane
    v_lane     windlass.lane;
    v_handed   windlass.handed[] := '{}';
    v_left     windlass.held[] := '{}';  -- jobs that are offered, and handed to nobody
    v_room     int;
    v_rows     windlass.held[];  -- jobs that are handed over, and their positions: those that wait come first
    v_seqs     bigint[];
    v_waiting  windlass.held[];  -- jobs that wait in the lane already
    v_waits    int;              -- how many they are
    v_eligible boolean;
    v_claimed  windlass.handed[];  -- all that this claim takes, with those that follow
    v_claim    bigint;
    v_tasks    text[];
    v_unique   boolean;
    v_hi       bigint;
    v_n        bigint;
    v_taken    int8multirange;
    v_ahead    int8multirange;
    v_spill    bigint[];
BEGIN
    FOR g IN SELECT u.queue, u.priority, u.abilities, array_agg(u.job ORDER BY (u.job).turn) AS jobs, q.place
               FROM (SELECT r.queue, r.priority, windlass.abilities_of(r.options) AS abilities, r AS job
                       FROM unnest(p_rows) AS r) AS u
               LEFT JOIN unnest(p_queues) WITH ORDINALITY AS q (queue, place) ON q.queue = u.queue
              GROUP BY u.queue, u.priority, u.abilities, q.place
              ORDER BY u.queue, u.priority, u.abilities LOOP
        v_room := CASE WHEN g.abilities = '' OR windlass.is_able(p_worker, g.abilities)
                       THEN coalesce(p_rooms[g.place], 0) ELSE 0 END;
        v_rows := CASE WHEN v_room > 0 THEN
                  ARRAY(SELECT u FROM unnest(g.jobs) AS u
                         WHERE u.deaths = 0 AND u.task <> ALL (p_tokens)
                           AND coalesce(u.options::text NOT LIKE '%"part"%'
                                        AND u.options::text NOT LIKE '%"expires_at"%', true)
                         LIMIT v_room) END;
        SELECT l.* INTO v_lane FROM windlass.lane l JOIN windlass.queue q ON q.name = l.queue
         WHERE cardinality(v_rows) > 0 AND l.id = windlass.lane_for(g.queue, g.priority, g.abilities)
           AND q.concurrency IS NULL AND NOT q.governor AND NOT q.paused
           AND (q.cool_until IS NULL OR windlass.cooldown_left(q) = 0)
           AND NOT EXISTS (SELECT FROM windlass.lane x WHERE x.queue = g.queue AND x.id <> l.id
                              AND (x.abilities = '' OR windlass.is_able(p_worker, x.abilities))
                              AND windlass.lane_depth(x.id) > 0);
        IF NOT FOUND OR NOT pg_try_advisory_xact_lock(windlass.lock_space(), v_lane.id) THEN
            v_left := v_left || g.jobs;
            CONTINUE;
        END IF;
        c := windlass.cursor_of(v_lane.id);
        v_hi := c.hi;
        v_n := coalesce(pg_sequence_last_value(v_lane.position), 0) - v_hi - c.ahead_n;
        v_ahead := CASE WHEN c.ahead_n > 0 THEN windlass.gather_seqs(c.ahead, c.ahead_spilled)
                                                * int8multirange(int8range(v_hi + 1, NULL)) ELSE '{}' END;
        v_waits := 0;
        v_seqs := '{}';
        IF c.holes > 0 OR v_n > 0 AND coalesce(p_runs[g.place], 0) < 1 THEN
            v_left := v_left || g.jobs;
            CONTINUE;
        ELSIF v_n > 0 THEN
            SELECT f.jobs, f.seqs, f.eligible INTO v_waiting, v_seqs, v_eligible
              FROM windlass.waiting_first(v_lane, v_hi, v_ahead, v_n > v_room, v_room, p_tokens) AS f;
            IF NOT v_eligible THEN
                v_left := v_left || g.jobs;
                CONTINUE;
            END IF;
            v_waits := cardinality(v_waiting);
            v_rows := v_waiting || v_rows[:v_room - v_waits];
        END IF;
        p_rooms[g.place] := v_room - cardinality(v_rows);
        v_left := v_left || ARRAY(SELECT u FROM unnest(g.jobs) AS u
                                   WHERE u.id <> ALL (ARRAY(SELECT r.id FROM unnest(v_rows) AS r)));
        IF cardinality(v_rows) > v_waits THEN
            v_seqs := v_seqs || windlass.offer_rows(v_lane.id, v_rows[v_waits + 1:], true);
        END IF;
        v_claim := windlass.next_claim(c);
        v_claimed := windlass.add_followers(v_lane, v_claim, v_rows, coalesce(p_runs[g.place], 0), p_tokens);
        v_claimed := ARRAY(
            SELECT ROW (v_lane.id, v_claim, u.seq, u.id, u.task, u.payload, u.options, u.attempt, u.deaths,
                        u.queue, u.priority, date_part('epoch', u.enqueued_at),
                        date_part('epoch', u.since),
                        coalesce((SELECT p.run FROM windlass.pass p
                                   WHERE cardinality(v_claimed) > 0 AND p.job = u.id AND p.gate || '' = u.gate
                                     AND EXISTS (SELECT FROM windlass.pass o
                                                  WHERE o.gate = p.gate AND o.run = p.run
                                                    AND o.job <> p.job)), 0)
                       )::windlass.handed
              FROM ROWS FROM (unnest(v_rows), unnest(v_seqs))
                AS u (id, turn, since, enqueued_at, priority, attempt, deaths, queue, fair_key, task, payload,
                      options, gate, need, replaces, seq)) || v_claimed;
        SELECT range_agg(int8range(u.seq, u.seq + 1)), array_agg(u.task),
               bool_or(u.options::text LIKE '%"unique_key"%')
          INTO v_taken, v_tasks, v_unique FROM unnest(v_claimed) AS u;
        v_ahead := v_ahead + v_taken;
        IF lower(v_ahead) = v_hi + 1 THEN
            SELECT upper(s) - 1 INTO v_hi FROM unnest(v_ahead) AS s ORDER BY lower(s) LIMIT 1;
            v_ahead := v_ahead * int8multirange(int8range(v_hi + 1, NULL));
        END IF;
        v_spill := NULL;
        v_n := CASE WHEN isempty(v_ahead) THEN 0 ELSE windlass.count_seqs(v_ahead) END;
        IF v_n > 32 AND (SELECT count(*) FROM unnest(v_ahead)) > 32 THEN
            v_spill := windlass.spill_seqs(v_lane.id, v_ahead, 0, '{}');
            v_ahead := '{}';
        END IF;
        INSERT INTO windlass.claim (segment, id, lane, worker, hi, n, late, seqs, claimed_at, probed_at,
                                    ahead, ahead_spilled, ahead_n, tasks, snapshot)
        VALUES (pg_sequence_last_value('windlass.segment_current'::regclass), v_claim, v_lane.id, p_worker,
                v_hi, cardinality(v_claimed), v_n > 0, v_taken, windlass.now(), c.probed_at,
                nullif(v_ahead, '{}'), v_spill, v_n,
                CASE WHEN v_tasks[1] = ALL (v_tasks) THEN v_tasks[:1] ELSE v_tasks END,
                CASE WHEN v_unique THEN pg_current_snapshot() END);
        v_handed := v_handed || v_claimed;
    END LOOP;
    IF cardinality(v_left) > 0 THEN
        PERFORM windlass.offer_held(v_left);
    END IF;
    RETURN v_handed;
END $$;

-- The first jobs that wait in a lane, up to p_room, for a flush to hand over: `jobs`, each with the gate
-- whose run others may join, or none, and its turn there; `seqs`, their positions. `eligible`: all of them
-- may be handed over. Where more wait than there is room for (p_more), those of a plain backlog are left to
-- claims, which take many at once.
-- Callers: hand_over. May call: worker. Plan: generic, pinned, ordered, nested. Lock: those of the gates,
-- without waiting; the caller holds the lane's. At most eight gaps between what was claimed ahead are looked
-- at, and no more than 10,000 numbers are claimed ahead: then a claim must move the cursor first.
CREATE OR REPLACE FUNCTION windlass.waiting_first(
    p_lane windlass.lane, p_hi bigint, p_ahead int8multirange, p_more boolean, p_room int, p_tokens text[],
    OUT jobs windlass.held[], OUT seqs bigint[], OUT eligible boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_gaps  int8multirange := int8multirange(
        int8range(p_hi + 1, coalesce(pg_sequence_last_value(p_lane.position), 0), '[]')) - p_ahead;
    v_space int := ('windlass.held'::regclass::oid::bigint - 2147483648)::int;
BEGIN
    eligible := (SELECT count(*) FROM unnest(v_gaps)) <= 8
                AND (isempty(p_ahead) OR windlass.count_seqs(p_ahead) <= 10000);
    IF NOT eligible THEN
        RETURN;
    END IF;
    SELECT coalesce(array_agg(ROW (windlass.job_of(w.ready), coalesce(p.turn, 0), (w.ready).offered_at,
                                   windlass.enqueued_of(w.ready), p_lane.priority, (w.ready).attempt,
                                   (w.ready).deaths, p_lane.queue, NULL, (w.ready).task, (w.ready).payload,
                                   (w.ready).options,
                                   CASE WHEN pg_try_advisory_xact_lock(v_space, hashtext(p.gate))
                                        THEN p.gate END, 1, NULL)::windlass.held
                                   ORDER BY (w.ready).seq), '{}'),
           coalesce(array_agg((w.ready).seq ORDER BY (w.ready).seq), '{}'),
           coalesce(bool_and((w.ready).deaths = 0 AND (w.ready).task <> ALL (p_tokens)
                             AND coalesce((w.ready).options::text !~ '"(part|fair_key|expires_at)"', true)
                             AND t.concurrency IS NULL AND t.key_concurrency IS NULL
                             AND (p.gate IS NOT NULL OR NOT p_more)
                             AND coalesce(p.gate NOT LIKE 'budget:%', true)), true)
      INTO jobs, seqs, eligible
      FROM (SELECT r.ready
              FROM unnest(v_gaps) AS gap (span)
             CROSS JOIN LATERAL (SELECT x AS ready FROM windlass.ready x
                                  WHERE x.lane = p_lane.id AND x.seq >= lower(gap.span)
                                    AND x.seq < upper(gap.span)
                                  ORDER BY x.seq LIMIT p_room) AS r
             ORDER BY (r.ready).seq LIMIT p_room) AS w
      LEFT JOIN LATERAL (SELECT x.gate, x.turn FROM windlass.pass x WHERE x.job = windlass.job_of(w.ready)
                          ORDER BY x.gate LIMIT 1) AS p ON true
      LEFT JOIN windlass.task_setting t ON t.name = (w.ready).task;
END $$;

-- How long a lane's holes are left alone between two probes: 50 ms, and more where they are many, since each
-- range costs an index probe per segment; hardly at all where they are a handful, since that is a job or two
-- whose producers commit a moment late.
-- Callers: claim_take. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.probe_pause(c windlass.claim) RETURNS interval
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN c.holes <= 8 AND c.spilled IS NULL THEN interval '1 millisecond'
                ELSE make_interval(secs => 0.05 * (1 + coalesce((
                     SELECT sum(ranges) FROM windlass.seq_set WHERE id = ANY (c.spilled)), 0) / 250.0)) END
$$;

-- Marks a lane as idle, so that the next enqueue notifies, and says whether it is: 'empty' or 'pending'.
-- Callers: claim_take. May call: worker. Plan: the caller's. Lock: the lane's, held by the caller.
-- The worker sets the mark, then reads the position; a producer draws its number, then reads the mark. One of
-- the two sees the other, so no wake-up is lost [rule 10]. The mark is a sequence: it obeys no transaction.
CREATE OR REPLACE FUNCTION windlass.mark_idle(p_lane windlass.lane, p_hi bigint, p_holes bigint) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    IF pg_sequence_last_value(p_lane.idle) = 0 THEN
        PERFORM setval(p_lane.idle, 1, true);
    END IF;
    IF p_holes > 0 OR coalesce(pg_sequence_last_value(p_lane.position), 0) > p_hi THEN
        RETURN 'pending';
    END IF;
    RETURN 'empty';
END $$;

-- ==== Statements that the store sends ====

-- :waiting_in
-- How many jobs of queues wait for a worker of some abilities, with parts that are not offered yet and that
-- the `parallel` of their parent does not hold back. $1 queues, $2 abilities.
-- Callers: the store's claim, for queues whose jobs take long. Lock: none.
SELECT q.queue,
       (SELECT coalesce(sum(windlass.lane_depth(l.id)), 0) FROM windlass.lane l
         WHERE l.queue = q.queue AND string_to_array(l.abilities, ',') <@ $2::text[])
       + (SELECT coalesce(sum(greatest(least(p.pending, p.parallel - p.out), 0)), 0) FROM windlass.parent p
           WHERE p.queue = q.queue AND p.state = 'waiting' AND p.pending > 0 AND NOT p.cancelling
             AND string_to_array(windlass.abilities_of(p.options), ',') <@ $2::text[]) AS n
  FROM unnest($1::text[]) AS q (queue)
