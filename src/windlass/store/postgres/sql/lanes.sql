-- Lanes: how they are declared, how jobs are put at their back; the cursor, which is the newest claim row of
-- a lane, the holes that it carries along, and how deep a lane is. Claiming is in claims.sql.

-- ==== Declaring ====

-- What a job needs of a worker: abilities, sorted and with commas between them; '' for none.
-- Callers: every function that finds the lane of a job by its row. May call: worker. Plan: the caller's.
-- Lock: none. The index of rings has the same expression.
CREATE OR REPLACE FUNCTION windlass.abilities_of(p_options json) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(p_options ->> 'needs', '')
$$;

-- What the lanes of a queue whose jobs need the same are called together: in wake-ups, and in the names of
-- the waiting lists of jobs that nobody would run.
-- Callers: offer, offer_rows, admit_gate, admit_lists, enqueue_aside, hold_unserved, unserved_places. May
-- call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.place_of(p_queue text, p_abilities text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE p_abilities WHEN '' THEN p_queue ELSE p_queue || ' ' || p_abilities END
$$;

-- Whether a worker has all of these abilities, of which there are some.
-- Callers: hand_over. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.is_able(p_worker bigint, p_abilities text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM windlass.worker w
                    WHERE w.id = p_worker AND string_to_array(p_abilities, ',') <@ w.abilities)
$$;

-- The lane in which jobs of a queue and priority that need these abilities are offered, or NULL.
-- Callers: admit_lists, hand_over, enqueue_many, enqueue_new, enqueue_one, ensure_lane, try_lane,
-- offer_deferred, serve_after, go_on, lock_lanes_of.
-- May call: worker. Plan: the caller's. Lock: none.
-- Also NULL while the lane is not adopted: it would give out numbers twice [S3].
CREATE OR REPLACE FUNCTION windlass.lane_for(p_queue text, p_priority smallint, p_abilities text)
RETURNS int
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_lane int;
BEGIN
    SELECT l.id INTO v_lane
      FROM windlass.lane l
      JOIN windlass.epoch_mark e
        ON e.epoch = l.epoch AND e.place = 'windlass.epoch_mark'::regclass::oid::bigint
     WHERE l.queue = p_queue AND l.priority = p_priority AND l.abilities = p_abilities;
    RETURN v_lane;
END $$;

-- The lane to offer in, declared if need be.
-- Callers: try_lane, offer_held, offer_one, offer_part_jobs, end_waiting, end_aside: never a producer's
-- transaction. May call: worker. Plan: the caller's. Lock: those of declare_lane where it must.
CREATE OR REPLACE FUNCTION windlass.ensure_lane(
    p_queue text, p_priority smallint, p_abilities text DEFAULT '') RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    v_lane int := windlass.lane_for(p_queue, p_priority, p_abilities);
BEGIN
    IF v_lane IS NULL THEN
        PERFORM windlass.check_epoch();
        PERFORM windlass.declare_lane(p_queue, p_priority, p_abilities);
        v_lane := windlass.lane_for(p_queue, p_priority, p_abilities);
    END IF;
    RETURN v_lane;
END $$;

-- As ensure_lane, but NULL if the lane must be declared and an open transaction is declaring it or holds its
-- queue: the caller goes on with the rest and comes back [S2].
-- Callers: place_changed, the store before it enqueues, promote, admit_ring, admit_gate, try_lock_waiting,
-- end_expired. May call: worker. Plan: none (one lane, before the store enqueues). Lock: those of
-- declare_lane where it must, each waited for 20 ms at most.
CREATE OR REPLACE FUNCTION windlass.try_lane(p_queue text, p_priority smallint, p_abilities text DEFAULT '')
RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    v_lane   int := windlass.lane_for(p_queue, p_priority, p_abilities);
    v_before text := current_setting('lock_timeout');
BEGIN
    IF v_lane IS NULL THEN
        BEGIN
            PERFORM set_config('lock_timeout', '20ms', true);
            v_lane := windlass.ensure_lane(p_queue, p_priority, p_abilities);
            PERFORM set_config('lock_timeout', v_before, true);
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
    END IF;
    RETURN v_lane;
END $$;

-- Makes sure that a queue has its lane of one priority and set of abilities, and returns it.
-- Callers: ensure_lane. May call: worker. Plan: free. Never a producer's transaction [rule 11].
-- Lock: advisory, (oid of the sequence of lanes, hash of the queue), so that an open transaction that
-- declares lanes holds up its own queue only; the row of meta FOR KEY SHARE, so that no epoch begins before
-- the lane is visible; then pins the segment.
-- A lane without a cursor is an error, so its first claim row is written with it. A server that was promoted
-- may have forgotten a lane of the same number, hence its first seq is 1 in the first epoch only [S3].
CREATE OR REPLACE FUNCTION windlass.declare_lane(
    p_queue text, p_priority smallint, p_abilities text DEFAULT '') RETURNS int
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_lane  int;
    v_epoch bigint;
    v_start bigint;
BEGIN
    PERFORM windlass.check_name('queue', p_queue);
    PERFORM windlass.require_read_committed();
    PERFORM pg_advisory_xact_lock(('windlass.lane_id'::regclass::oid::bigint - 2147483648)::int,
                                  hashtext(p_queue));
    INSERT INTO windlass.queue (name) VALUES (p_queue) ON CONFLICT DO NOTHING;
    SELECT m.epoch INTO v_epoch FROM windlass.meta m WHERE m.single FOR KEY SHARE;
    SELECT l.id INTO v_lane FROM windlass.lane l
     WHERE l.queue = p_queue AND l.priority = p_priority AND l.abilities = p_abilities;
    IF FOUND THEN
        RETURN v_lane;
    END IF;
    v_lane := nextval('windlass.lane_id');
    EXECUTE format('CREATE SEQUENCE windlass.%I MINVALUE 1 MAXVALUE :ids.MAX_SEQ NO CYCLE CACHE 1',
                   'lane_' || v_lane || '_position');
    EXECUTE format('CREATE SEQUENCE windlass.%I MINVALUE 0 MAXVALUE 1 START 1 CACHE 1',
                   'lane_' || v_lane || '_idle');
    v_start := CASE WHEN v_epoch > 1 THEN windlass.skip_length(0) ELSE 0 END;
    PERFORM setval(format('windlass.%I', 'lane_' || v_lane || '_position'), v_start, true)
      WHERE v_start > 0;
    -- Idle from the start: the first job of a lane wakes the listeners.
    PERFORM setval(format('windlass.%I', 'lane_' || v_lane || '_idle'), 1, true);
    INSERT INTO windlass.lane (id, queue, priority, abilities, epoch, skipped, position, idle)
    VALUES (v_lane, p_queue, p_priority, p_abilities, v_epoch, v_start,
            format('windlass.%I', 'lane_' || v_lane || '_position'),
            format('windlass.%I', 'lane_' || v_lane || '_idle'));
    INSERT INTO windlass.claim (segment, id, lane, worker, hi, n, seqs, claimed_at, probed_at)
    VALUES (windlass.pin_segment(), nextval('windlass.claim_id'), v_lane, 0, v_start, 0, '{}',
            windlass.now(), windlass.now());
    RETURN v_lane;
END $$;

-- ==== Offering ====

-- Puts jobs at the back of a lane and returns their seqs, in order. New ready rows are written here, by
-- offer_rows and by add_followers.
-- Callers: place_changed, enqueue_many, enqueue_one, enqueue_aside, enqueue_new, reoffer, offer_deferred,
-- offer_one, offer_part_jobs, end_waiting, end_aside, adopt_lane, rotation_move. May call: worker. Plan: the
-- caller's. Lock: ROW EXCLUSIVE on ready and its partition. Order matters [rule 3]: the xid, then the lock on
-- ready, then the numbers, all of them before the first insert. A hole in a claim belongs to a transaction
-- that had its xid before the hole could be seen, and that shows in pg_locks for as long as it lives. p_tasks
-- of length 1 is for all; a NULL array means defaults. p_since: since when they have been ready.
CREATE OR REPLACE FUNCTION windlass.offer(
    p_lane int, p_n int, p_tasks text[], p_payloads text[], p_options text[] DEFAULT NULL,
    p_ids bigint[] DEFAULT NULL, p_attempts smallint[] DEFAULT NULL, p_deaths smallint[] DEFAULT NULL,
    p_enqueued timestamptz[] DEFAULT NULL, p_since timestamptz[] DEFAULT NULL)
RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    v_segment smallint;
    v_seqs    bigint[];
    v_now     timestamptz := windlass.now();
    v_lane    windlass.lane;
    v_position regclass;
BEGIN
    SELECT * INTO STRICT v_lane FROM windlass.lane WHERE id = p_lane;
    v_position := v_lane.position;  -- a name: looked up once, not for each job
    PERFORM pg_current_xact_id();
    LOCK TABLE ONLY windlass.ready IN ROW EXCLUSIVE MODE;
    v_segment := windlass.pin_segment();
    IF p_n = 1 THEN
        v_seqs := ARRAY[nextval(v_position)];
        INSERT INTO windlass.ready (segment, lane, seq, id, attempt, deaths, task, payload, options,
                                    offered_at, enqueued_at)
        VALUES (v_segment, p_lane, v_seqs[1], p_ids[1], coalesce(p_attempts[1], 1), coalesce(p_deaths[1], 0),
                p_tasks[1], p_payloads[1]::json, p_options[1]::json, coalesce(p_since[1], v_now),
                p_enqueued[1]);
    ELSE
        SELECT array_agg(nextval(v_position)) INTO v_seqs FROM generate_series(1, p_n);
        INSERT INTO windlass.ready (segment, lane, seq, id, attempt, deaths, task, payload, options,
                                    offered_at, enqueued_at)
        SELECT v_segment, p_lane, u.seq, u.id, coalesce(u.attempt, 1), coalesce(u.deaths, 0),
               coalesce(u.task, p_tasks[1]), u.payload::json, u.options::json, coalesce(u.since, v_now),
               u.enqueued
          FROM unnest(v_seqs, p_tasks, p_payloads, p_options, p_ids, p_attempts, p_deaths, p_enqueued,
                      p_since)
            AS u (seq, task, payload, options, id, attempt, deaths, enqueued, since);
    END IF;
    -- The numbers are drawn; only now is the idle mark read [rule 10].
    IF pg_sequence_last_value(v_lane.idle) = 1 THEN
        PERFORM windlass.wake(windlass.place_of(v_lane.queue, v_lane.abilities));
    END IF;
    RETURN v_seqs;
END $$;

-- The same for held jobs, as they are. p_quiet: nobody need be woken, since the caller claims them itself.
-- Callers: offer_held, hand_over. May call: worker. Plan: the caller's. Lock: those of offer.
CREATE OR REPLACE FUNCTION windlass.offer_rows(
    p_lane int, p_rows windlass.held[], p_quiet boolean DEFAULT false) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    v_segment smallint;
    v_seqs    bigint[];
    v_lane    windlass.lane;
    v_position regclass;
BEGIN
    SELECT * INTO STRICT v_lane FROM windlass.lane WHERE id = p_lane;
    v_position := v_lane.position;
    PERFORM pg_current_xact_id();
    LOCK TABLE ONLY windlass.ready IN ROW EXCLUSIVE MODE;
    v_segment := windlass.pin_segment();
    SELECT array_agg(nextval(v_position)) INTO v_seqs FROM generate_series(1, cardinality(p_rows));
    INSERT INTO windlass.ready (segment, lane, seq, id, attempt, deaths, task, payload, options, offered_at,
                                enqueued_at)
    SELECT v_segment, p_lane, u.seq, u.id, u.attempt, u.deaths, u.task, u.payload, u.options, u.since,
           u.enqueued_at
      FROM ROWS FROM (unnest(p_rows), unnest(v_seqs))
        AS u (id, turn, since, enqueued_at, priority, attempt, deaths, queue, fair_key, task, payload,
              options, gate, need, replaces, seq);
    -- The numbers are drawn; only now is the idle mark read [rule 10].
    IF NOT p_quiet AND pg_sequence_last_value(v_lane.idle) = 1 THEN
        PERFORM windlass.wake(windlass.place_of(v_lane.queue, v_lane.abilities));
    END IF;
    RETURN v_seqs;
END $$;

-- Offers one job now: at the end of the waiting list of the first gate that it must pass, or at the back of
-- its lane.
-- Callers: retry. May call: worker. Plan: the caller's. Lock: those of offer.
CREATE OR REPLACE FUNCTION windlass.offer_one(
    p_queue text, p_priority smallint, p_task text, p_payload json, p_options json, p_job bigint,
    p_attempt smallint, p_deaths smallint, p_enqueued timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_gate text := windlass.next_gate(p_job, p_queue, p_task, p_options);
BEGIN
    IF v_gate IS NULL THEN
        PERFORM windlass.offer(windlass.ensure_lane(p_queue, p_priority, windlass.abilities_of(p_options)),
                               1, ARRAY[p_task], ARRAY[p_payload::text], ARRAY[p_options::text],
                               ARRAY[p_job], ARRAY[p_attempt], ARRAY[p_deaths], ARRAY[p_enqueued]);
        RETURN;
    END IF;
    PERFORM windlass.mark_gates_changed(ARRAY[v_gate]);
    INSERT INTO windlass.held (id, since, enqueued_at, queue, priority, attempt, deaths,
                               gate, task, payload, options)
    VALUES (p_job, windlass.now(), p_enqueued, p_queue, p_priority, p_attempt, p_deaths, v_gate, p_task,
            p_payload, p_options);
END $$;

-- ==== The cursor ====

-- The cursor of a lane: its newest claim row [rule 2].
-- Callers: claim_take, hand_over, take_ahead, rotation_touch, rotation_move, rotation_reclaim, adopt_lane,
-- must_adopt, expire, lane_depth, lane_committed_depth, lane_head, lane_tasks, list_spans. May call: worker,
-- reader. Plan: generic, pinned, ordered.
-- Lock: none; who writes a claim row after it holds the lane lock.
CREATE OR REPLACE FUNCTION windlass.cursor_of(p_lane int) RETURNS windlass.claim
LANGUAGE plpgsql AS $$
DECLARE
    c windlass.claim;
BEGIN
    SELECT * INTO c FROM windlass.claim WHERE lane = p_lane ORDER BY id DESC LIMIT 1;
    IF NOT FOUND AND current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'the cursor of lane % is not visible to this transaction', p_lane
            USING ERRCODE = 'serialization_failure', HINT = 'Run the transaction again.';
    ELSIF NOT FOUND THEN
        RAISE EXCEPTION 'lane % has no cursor', p_lane USING ERRCODE = 'WL003',
            HINT = 'Its claim rows are missing; restore them from a backup before claiming from it.';
    END IF;
    RETURN c;
END $$;

-- The number of a lane's next claim row. It must lie above the cursor's, or the newest row would not be the
-- cursor and jobs would be given out twice [rule 2].
-- Callers: claim_take, hand_over, take_ahead, rotation_touch. May call: worker. Plan: the caller's. Lock: the
-- lane's, held by the caller.
CREATE OR REPLACE FUNCTION windlass.next_claim(c windlass.claim) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    IF pg_sequence_last_value('windlass.claim_id'::regclass) < c.id THEN
        RAISE EXCEPTION 'claim numbers stand at %, below the cursor of lane %, claim %',
            pg_sequence_last_value('windlass.claim_id'::regclass), c.lane, c.id
            USING ERRCODE = 'WL004',
                  HINT = 'The sequence claim_id was set back: SELECT windlass.adopt() mends it.';
    END IF;
    RETURN nextval('windlass.claim_id');
END $$;

-- ==== Holes ====

-- A lane's holes after a claim: without the jobs it found and the dead holes, with the gaps it saw. Callers:
-- claim_take, take_ahead. May call: worker. Plan: the caller's. Lock: the lane's, held by the caller.
-- p_dead: every xid below it is done, or NULL where this claim may not drop anything (it has not probed, or
-- left visible jobs behind). p_xid: the claim's own xid, the horizon of whatever it saw missing; NULL where
-- the caller saw no gap, and its xid may be older than known holes: then no horizon moves. Two generations:
-- gaps join `young`; once `old` is gone, young becomes old with the horizon of that moment. More than 32
-- ranges are spilled, so that a claim row stays small.
CREATE OR REPLACE FUNCTION windlass.hole_state(
    c windlass.claim, p_taken int8multirange, p_gaps int8multirange, p_dead bigint, p_xid bigint,
    OUT young int8multirange, OUT old int8multirange, OUT horizon bigint, OUT spilled bigint[],
    OUT holes bigint)
LANGUAGE plpgsql AS $$
DECLARE
    s windlass.seq_set;
BEGIN
    young := coalesce(c.young, '{}') - p_taken + p_gaps;
    old := coalesce(c.old, '{}') - p_taken;
    horizon := c.old_horizon;
    IF p_dead >= horizon THEN
        old := '{}';
    END IF;
    FOR s IN SELECT * FROM windlass.seq_set WHERE id = ANY (c.spilled) LOOP
        IF p_dead >= s.horizon THEN
            CONTINUE;
        -- Holes are at or below hi: a claim that took nothing there need not unpack a large set.
        ELSIF lower(p_taken) <= c.hi AND s.seqs && p_taken THEN
            spilled := windlass.spill_seqs(c.lane, s.seqs - p_taken, s.horizon, '{}') || spilled;
        ELSE
            spilled := s.id || spilled;
        END IF;
    END LOOP;
    IF p_xid IS NOT NULL AND isempty(old) AND NOT isempty(young) THEN
        old := young;
        young := '{}';
        horizon := p_xid;
    END IF;
    IF p_xid IS NOT NULL
       AND (SELECT count(*) FROM unnest(old)) + (SELECT count(*) FROM unnest(young)) > 32 THEN
        spilled := windlass.spill_seqs(c.lane, old + young, p_xid, coalesce(spilled, '{}'));
        old := '{}';
        young := '{}';
    END IF;
    holes := windlass.count_seqs(young) + windlass.count_seqs(old);
    IF spilled IS NOT NULL THEN
        holes := holes + (SELECT coalesce(sum(n), 0) FROM windlass.seq_set WHERE id = ANY (spilled));
    END IF;
    young := nullif(young, '{}');
    old := nullif(old, '{}');
    IF old IS NULL THEN
        horizon := NULL;
    END IF;
END $$;

-- Writes a set of seqs to a side row and returns the lane's list of such sets.
-- Callers: take_ahead, hand_over, hole_state. May call: worker. Plan: the caller's.
-- Lock: the lane's, held by the caller.
-- A new set absorbs older ones of up to twice its size, as a binary counter does: n ranges cost n*log n to
-- keep in at most log n sets, while each claim row only repeats their ids. The horizon of the union is the
-- caller's own xid, later than any of the old ones, so nothing dies early.
CREATE OR REPLACE FUNCTION windlass.spill_seqs(
    p_lane int, p_seqs int8multirange, p_horizon bigint, p_spilled bigint[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    s        windlass.seq_set;
    v_seqs   int8multirange := p_seqs;
    v_ranges int;
    v_kept   bigint[] := p_spilled;
    v_id     bigint := nextval('windlass.seq_set_id');
BEGIN
    SELECT count(*) INTO v_ranges FROM unnest(v_seqs);
    FOR s IN SELECT * FROM windlass.seq_set WHERE id = ANY (p_spilled) ORDER BY ranges LOOP
        EXIT WHEN s.ranges > 2 * v_ranges;
        v_seqs := v_seqs + s.seqs;
        v_ranges := v_ranges + s.ranges;
        v_kept := array_remove(v_kept, s.id);
    END LOOP;
    INSERT INTO windlass.seq_set (id, lane, horizon, ranges, n, seqs)
    SELECT v_id, p_lane, p_horizon, count(*), coalesce(sum(upper(u) - lower(u)), 0), v_seqs
      FROM unnest(v_seqs) AS u;
    RETURN v_kept || v_id;
END $$;

-- ==== Depth ====

-- How many jobs wait in a lane, in O(1): position - hi + holes - ahead. Numbers drawn by transactions that
-- have not committed, and burnt ones that no claim has passed yet, count until then.
-- Callers: admit_ring, hand_over, lane_depths, lane_heads, lane_tasks, queue_load, of which readers call some
-- (with the owner's rights, since a lane declared after a grant has a sequence of its own). May call:
-- worker, reader. Plan: free. Lock: none.
CREATE OR REPLACE FUNCTION windlass.lane_depth(p_lane int) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    c          windlass.claim := windlass.cursor_of(p_lane);
    v_position regclass;
BEGIN
    -- The primary logs a sequence 32 numbers ahead, and a standby sees what was logged. So on a standby the
    -- newest row counts, or the last number taken ahead: numbers that a new epoch skipped have no rows.
    IF pg_is_in_recovery() THEN
        RETURN greatest((SELECT r.seq FROM windlass.ready r WHERE r.lane = p_lane AND r.seq > c.hi
                          ORDER BY r.seq DESC LIMIT 1),
                        upper(windlass.gather_seqs(c.ahead, c.ahead_spilled)) - 1,
                        c.hi) - c.hi + c.holes - c.ahead_n;
    END IF;
    SELECT position INTO v_position FROM windlass.lane WHERE id = p_lane;
    RETURN coalesce(pg_sequence_last_value(v_position), 0) - c.hi + c.holes - c.ahead_n;
END $$;

-- How many committed jobs wait in a lane: as lane_depth, but without the numbers of open transactions and
-- without burnt ones, so that no job is refused or held because of rows that may still roll back [S2]. Up to
-- p_enough are counted where that is no more than 1,000, or where the lane is no deeper. Beyond that, 200
-- evenly spaced positions are sampled: that costs the same at any depth, and is off by half a percent for
-- each range of invisible numbers. Long ranges taken ahead are left out first, above all the half billion or
-- more that a new epoch skips, or the samples would fall into them [S3]. Callers: admit_ring, queue_load. May
-- call: worker. Plan: generic, pinned, ordered. Lock: none.
CREATE OR REPLACE FUNCTION windlass.lane_committed_depth(p_lane int, p_enough bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    c          windlass.claim := windlass.cursor_of(p_lane);
    v_ahead    int8multirange := windlass.gather_seqs(c.ahead, c.ahead_spilled);
    v_position bigint := (SELECT coalesce(pg_sequence_last_value(l.position), 0) FROM windlass.lane l
                           WHERE l.id = p_lane);
    v_drawn    int8multirange := int8multirange(int8range(c.hi + 1, greatest(v_position, c.hi) + 1));
    v_n        bigint;
    v_seen     bigint;
BEGIN
    v_drawn := v_drawn - coalesce((SELECT range_agg(a) FROM unnest(v_ahead) AS a
                                    WHERE upper(a) - lower(a) > (v_position - c.hi) / 400), '{}');
    v_n := windlass.count_seqs(v_drawn);
    IF p_enough <= 1000 OR v_n <= 1000 THEN
        v_seen := (SELECT count(*) FROM (SELECT FROM windlass.ready r
                                          WHERE r.lane = p_lane AND r.seq > c.hi AND NOT r.seq <@ v_ahead
                                          ORDER BY r.seq LIMIT CASE WHEN v_n > 1000 THEN p_enough END) AS x);
    END IF;
    IF v_n > 1000 AND v_seen >= p_enough IS NOT FALSE THEN
        v_seen := greatest(v_seen, (
            SELECT count(*) * v_n / 200
              FROM (SELECT lower(d) AS first, upper(d) - lower(d) AS n,
                           (sum(upper(d) - lower(d)) OVER (ORDER BY lower(d)))::bigint AS through
                               FROM unnest(v_drawn) AS d) AS s
              JOIN LATERAL (SELECT (i * 2 + 1) * v_n / 400 AS place FROM generate_series(0, 199) AS i) AS l
                ON l.place >= s.through - s.n AND l.place < s.through
             CROSS JOIN LATERAL (SELECT FROM windlass.ready r
                                  WHERE r.lane = p_lane AND r.seq = s.first + l.place - (s.through - s.n)
                                    AND NOT r.seq <@ v_ahead OFFSET 0) AS x));
    END IF;
    IF c.holes > 0 AND v_seen < p_enough THEN
        v_seen := v_seen + (
            SELECT count(*) FROM (
                SELECT FROM unnest(windlass.gather_seqs(coalesce(c.young, '{}') + coalesce(c.old, '{}'),
                                                   c.spilled)) AS hole (span)
                 CROSS JOIN LATERAL (SELECT FROM windlass.ready r
                                      WHERE r.lane = p_lane AND r.seq >= lower(hole.span)
                                        AND r.seq < upper(hole.span)
                                      LIMIT 1000) AS x
                 LIMIT least(p_enough - v_seen, 1000)) AS y);
    END IF;
    RETURN v_seen;
END $$;

-- ==== Statements that the store sends ====

-- :lanes
-- The number of every lane.
-- Callers: the store's rotation. Lock: none.
SELECT id FROM windlass.lane ORDER BY id
