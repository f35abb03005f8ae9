-- Epochs [S3], and the adoption of a store that was promoted, restored or copied [rule 15].

-- ==== Epochs ====

-- Raises WL013 where the server was promoted, restored or has recovered from a crash and the store was not
-- adopted since: numbers might be given out twice [S3].
-- Callers: ensure_lane, take_ahead, hand_back, rotation_begin, lead, register, heartbeat, worker_fence,
-- worker_alone. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.check_epoch() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF windlass.epoch_here() IS DISTINCT FROM (SELECT m.epoch FROM windlass.meta m WHERE m.single) THEN
        PERFORM windlass.check_unsubscribed();
        RAISE EXCEPTION 'the store was not adopted since this server was promoted, restored or recovered'
            USING ERRCODE = 'WL013',
                  HINT = 'The next worker adopts it, or you do: SELECT windlass.adopt(false).';
    END IF;
END $$;

-- The epoch, if the server has lost nothing since it began [S3]: everything acknowledged is here, and no
-- number will be given out twice. NULL after a recovery, and in a copy.
-- Callers: worker_alone, check_epoch, must_adopt; hot functions repeat its expression.
-- May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.epoch_here() RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT e.epoch FROM windlass.epoch_mark e WHERE e.place = 'windlass.epoch_mark'::regclass::oid::bigint
$$;

-- Why the store must be adopted before it works, or NULL [rule 15] [S3]. 'copy': it was restored or
-- replicated elsewhere, or a sequence was set back. 'promotion': it is on another timeline. 'crash': the
-- server has recovered, and may have lost what it had acknowledged.
-- Callers: adopt, the store at open. May call: worker. Plan: free. Lock: none.
-- On a standby there is nothing to adopt yet.
CREATE OR REPLACE FUNCTION windlass.must_adopt() RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    m windlass.meta;
BEGIN
    IF pg_is_in_recovery() THEN
        RETURN NULL;
    END IF;
    SELECT * INTO m FROM windlass.meta;
    IF m.system_identifier IS DISTINCT FROM (SELECT s.system_identifier FROM pg_control_system() AS s)
       OR m.database IS DISTINCT FROM (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
       OR EXISTS (SELECT FROM windlass.lane l WHERE to_regclass(l.position) IS NULL
                      OR to_regclass(l.idle) IS NULL) THEN
        RETURN 'copy';
    ELSIF EXISTS (SELECT FROM windlass.lane l CROSS JOIN LATERAL windlass.cursor_of(l.id) AS c
                   WHERE coalesce(pg_sequence_last_value(l.position), 0)
                             < greatest(c.hi, upper(windlass.gather_seqs(c.ahead, c.ahead_spilled)) - 1)
                      OR pg_sequence_last_value('windlass.claim_id'::regclass) < c.id) THEN
        RETURN 'copy';
    ELSIF windlass.epoch_here() IS DISTINCT FROM m.epoch THEN
        RETURN CASE WHEN m.timeline IS DISTINCT FROM windlass.server_timeline() THEN 'promotion'
                    ELSE 'crash' END;
    END IF;
    RETURN NULL;
END $$;

-- The timeline that the server writes, which a promotion and a restore to a point in time change; NULL where
-- a managed service hides it.
-- Callers: adopt, must_adopt, stamp. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.server_timeline() RETURNS int
LANGUAGE plpgsql AS $$
BEGIN
    RETURN ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int;
EXCEPTION WHEN feature_not_supported OR insufficient_privilege OR object_not_in_prerequisite_state THEN
    RETURN NULL;
END $$;

-- Refuses to write while a subscription still replicates another database into this one: the two would mix.
-- Callers: check_epoch, skip_ids, adopt. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.check_unsubscribed() RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_name text;
BEGIN
    SELECT s.subname INTO v_name FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = r.srsubid
     WHERE s.subenabled AND r.srrelid IN ('windlass.meta'::regclass, 'windlass.claim_0'::regclass);
    IF FOUND THEN
        RAISE EXCEPTION 'subscription % still replicates the original into this database', quote_ident(v_name)
            USING ERRCODE = 'WL006',
                  HINT = 'Stop all writers of the original, let this database catch up, and drop the '
                         'subscription.';
    END IF;
END $$;

-- ==== Adoption ====

-- Begins a new epoch [S3] [rule 15], so that numbers which were given out and lost with the old server are
-- not given out again, and repairs a restored or switched-over copy. Returns how many jobs were offered
-- again.
-- Callers: users; the store at open, and where check_epoch has refused a call. May call: worker. Plan: free.
-- Lock: the rotation row; for a copy those of adopt_copy. Then without waiting: the row of meta, which
-- whoever declares a lane or registers a worker holds until that can be seen here; workers' life rows, since
-- a flush may hold its own while it waits for ready; lanes. Of several processes that come at once the first
-- adopts; without p_force the others check again under the lock and do nothing. After a crash workers stay
-- alive: claims that survived are still theirs, and writes for lost claims are refused. After a promotion or
-- a restore all workers are dead, and what they held is offered again. A copy of a store that was never used
-- counts as a new store.
CREATE OR REPLACE FUNCTION windlass.adopt(p_force boolean DEFAULT true) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    l       windlass.lane;
    w       bigint;
    v_why   text;
    v_epoch bigint;
    v_again bigint := 0;
BEGIN
    PERFORM windlass.require_read_committed();
    PERFORM windlass.check_unsubscribed();
    PERFORM FROM windlass.rotation FOR UPDATE;
    v_why := CASE WHEN p_force THEN 'copy' ELSE windlass.must_adopt() END;
    IF v_why IS NULL THEN
        RETURN 0;
    ELSIF v_why <> 'copy' THEN
        PERFORM windlass.skip_ids(0);
    ELSIF p_force OR EXISTS (SELECT FROM windlass.lane)
        OR pg_sequence_last_value('windlass.job_id'::regclass) IS NOT NULL THEN
        PERFORM windlass.adopt_copy();
    ELSE
        v_why := 'new';
    END IF;
    IF v_why <> 'new' THEN
        PERFORM setval('windlass.claim_id',
                       pg_sequence_last_value('windlass.claim_id'::regclass) + (1::bigint << 32)
                           + floor(random() * (1::bigint << 32))::bigint, true),
                setval('windlass.event_id_seq',
                       coalesce(pg_sequence_last_value('windlass.event_id_seq'::regclass), 0)
                           + (1 << 30) + floor(random() * (1 << 30))::bigint, true),
                setval('windlass.lane_id', s.last + least(32 + floor(random() * 32)::int,
                                                          (524287 - s.last) / 4), true)
           FROM (SELECT coalesce(pg_sequence_last_value('windlass.lane_id'::regclass), 0) AS last) AS s;
        UPDATE windlass.leader SET holder = NULL, until = '-infinity',
               term = term + (1 << 20) + floor(random() * (1 << 20))::int;
    END IF;
    PERFORM FROM windlass.meta FOR UPDATE NOWAIT;
    UPDATE windlass.meta SET epoch = epoch + (v_why <> 'new')::int, timeline = windlass.server_timeline(),
           ids_from = s.last + windlass.skip_length(s.last),
           system_identifier = (SELECT s.system_identifier FROM pg_control_system() AS s),
           database = (SELECT oid FROM pg_database WHERE datname = current_database())
      FROM (SELECT coalesce(pg_sequence_last_value('windlass.job_id'::regclass), 0) AS last) AS s
    RETURNING epoch INTO v_epoch;
    DELETE FROM windlass.epoch_mark;
    INSERT INTO windlass.epoch_mark (epoch, place) VALUES (v_epoch, 'windlass.epoch_mark'::regclass::oid);
    PERFORM FROM windlass.worker_life WHERE NOT settled FOR UPDATE NOWAIT;
    FOR l IN SELECT * FROM windlass.lane ORDER BY id LOOP
        v_again := v_again + windlass.adopt_lane(l, v_epoch, v_why = 'copy');
    END LOOP;
    UPDATE windlass.worker_life SET epoch = v_epoch, alive = alive AND v_why = 'crash' WHERE NOT settled;
    IF v_why <> 'crash' THEN
        FOR w IN SELECT id FROM windlass.worker_life WHERE NOT settled ORDER BY id LOOP
            v_again := v_again + (SELECT g.offered + g.cancelled
                                    FROM windlass.hand_back(w, 'released', '{}', 2147483647) AS g);
        END LOOP;
    END IF;
    IF v_why = 'copy' THEN
        PERFORM windlass.adopt_edits();
    END IF;
    RETURN v_again;
END $$;

-- What a copy needs besides a new epoch [rule 15]: transaction ids of the original mean nothing here, and its
-- sequences may be behind or missing.
-- Callers: adopt, which holds the rotation row. May call: worker. Plan: pinned. Lock: the watermark; SHARE
-- ROW EXCLUSIVE on ready, so that no producer is under way; the rows of touched keys, without waiting.
-- The lock is on ready alone, without its partitions: whoever draws a number takes it there first (see
-- offer), and retry, which holds a partition by then, would wait for us while we wait for it.
CREATE OR REPLACE FUNCTION windlass.adopt_copy() RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    l windlass.lane;
BEGIN
    PERFORM FROM windlass.deferred_watermark FOR UPDATE;
    LOCK TABLE ONLY windlass.ready IN SHARE ROW EXCLUSIVE MODE;
    UPDATE windlass.deferred_watermark SET run_at = '-infinity', snapshot = NULL;
    -- Their transactions are those of another server.
    DELETE FROM windlass.list_start;
    UPDATE windlass.gate_look SET noted = '0';
    UPDATE windlass.signal_look SET noted = '0';
    UPDATE windlass.rotation SET victim = NULL, turn = turn + 1, judged = false, carry_lanes = '{}',
           carry = '{}';
    PERFORM FROM windlass.unique_key WHERE touched IS NOT NULL FOR UPDATE NOWAIT;  -- see adopt_edits
    FOR l IN SELECT * FROM windlass.lane ORDER BY id LOOP
        EXECUTE format('CREATE SEQUENCE IF NOT EXISTS %s MINVALUE 1 MAXVALUE :ids.MAX_SEQ NO CYCLE CACHE 1',
                       l.position);
        EXECUTE format('CREATE SEQUENCE IF NOT EXISTS %s MINVALUE 0 MAXVALUE 1 START 1 CACHE 1', l.idle);
    END LOOP;
    -- These sequences must not stand below the highest number in use.
    PERFORM setval(s.sequence, s.highest, true)
       FROM (VALUES ('windlass.claim_id'::regclass, (SELECT max(id) FROM windlass.claim)),
                    ('windlass.lane_id'::regclass, (SELECT max(id) FROM windlass.lane)),
                    ('windlass.seq_set_id'::regclass, (SELECT max(id) FROM windlass.seq_set)),
                    ('windlass.part_event_no'::regclass, (SELECT max(no) FROM windlass.part_event)),
                    ('windlass.after_due_id_seq'::regclass, (SELECT max(id) FROM windlass.after_due)),
                    ('windlass.signal_no'::regclass, greatest((SELECT max(no) FROM windlass.signal),
                                                              (SELECT max(no) FROM windlass.wait))),
                    ('windlass.report_id_seq'::regclass, (SELECT max(id) FROM windlass.report)),
                    ('windlass.event_id_seq'::regclass, (SELECT max(id) FROM windlass.event)),
                    -- Where the sequence was not copied: the segment whose row is open.
                    ('windlass.segment_current'::regclass,
                     CASE WHEN pg_sequence_last_value('windlass.segment_current'::regclass) IS NULL
                          THEN coalesce((SELECT no FROM windlass.segment WHERE NOT empty AND closed_at IS NULL
                                          ORDER BY opened_at DESC NULLS LAST LIMIT 1), 0) END))
         AS s (sequence, highest)
      WHERE s.highest > coalesce(pg_sequence_last_value(s.sequence), -1);
    PERFORM setval('windlass.horizon', 0, true), setval('windlass.awaited', 0, true);
    -- Lane 0 holds the ids drawn from job_id.
    PERFORM windlass.skip_ids(greatest((SELECT max(id) FROM windlass.ready WHERE id < 1::bigint << 44),
                                       (SELECT max(id) FROM windlass.deferred WHERE id < 1::bigint << 44),
                                       (SELECT max(id) FROM windlass.held WHERE id < 1::bigint << 44),
                                       (SELECT max(id) FROM windlass.dead WHERE id < 1::bigint << 44),
                                       (SELECT max(id) FROM windlass.parent WHERE id < 1::bigint << 44),
                                       (SELECT max(job) FROM windlass.part WHERE job < 1::bigint << 44),
                                       (SELECT max(job) FROM windlass.unique_key WHERE job < 1::bigint << 44),
                                       (SELECT max(job) FROM windlass.idempotency
                                         WHERE job < 1::bigint << 44), 0));
END $$;

-- Moves a lane's numbers past all that were given out [S3], and repairs the lane of a copy [rule 15]. Returns
-- how many orphans it offered again.
-- Callers: adopt. May call: worker. Plan: pinned. Lock: the lane's, without waiting; the lane's row. Between
-- the numbers of the last epoch and those of this one is a gap that no job will fill. It is taken ahead of
-- the cursor [rule 13], so that neither depth nor a claim counts it as jobs about to commit. Nobody draws a
-- number of a lane before it is in this epoch (see lane_for, check_epoch), so the last one stays the last
-- one; prepared transactions have theirs. p_copy: with no producer under way, every hole that is not visible
-- is burnt: horizon 0 says so, and the next claim takes what is visible and drops the rest. Rows behind the
-- cursor that no claim covers are offered again.
CREATE OR REPLACE FUNCTION windlass.adopt_lane(l windlass.lane, p_epoch bigint, p_copy boolean) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    c         windlass.claim;
    v_ahead   int8multirange;
    v_last    bigint;
    v_skip    bigint;
    v_covered int8multirange;
    v_orphans windlass.ready[];
BEGIN
    IF NOT pg_try_advisory_xact_lock(windlass.lock_space(), l.id) THEN
        RAISE EXCEPTION 'lane % is in use', l.id USING ERRCODE = 'lock_not_available', HINT = 'Try again.';
    END IF;
    c := windlass.cursor_of(l.id);
    v_ahead := windlass.gather_seqs(c.ahead, c.ahead_spilled) * int8multirange(int8range(c.hi + 1, NULL));
    v_last := greatest(c.hi, upper(v_ahead) - 1, pg_sequence_last_value(l.position),
                       (SELECT max(seq) FROM windlass.ready WHERE lane = l.id), 0);
    v_skip := windlass.skip_length(v_last);
    IF p_copy THEN
        c.old := windlass.gather_seqs(coalesce(c.young, '{}') + coalesce(c.old, '{}'), c.spilled);
        SELECT coalesce(range_agg(x.seqs), '{}') INTO v_covered FROM windlass.claim x WHERE x.lane = l.id;
        SELECT array_agg(j.ready ORDER BY (j.ready).seq) INTO v_orphans
          FROM unnest(int8multirange(int8range(1, c.hi + 1)) - v_covered - c.old) AS gap (span)
         CROSS JOIN LATERAL (SELECT x AS ready FROM windlass.ready x
                              WHERE x.lane = l.id AND x.seq >= lower(gap.span)
                                AND x.seq < upper(gap.span)) AS j;
        c.holes := windlass.count_seqs(c.old);
        c.old := nullif(c.old, '{}');
        c.old_horizon := CASE WHEN c.old IS NOT NULL THEN 0 END;
        c.young := NULL;
        c.spilled := NULL;
    END IF;
    c.segment := windlass.pin_segment();
    c.id := nextval('windlass.claim_id');
    c.worker := 0;
    c.n := 0;
    c.late := false;
    c.seqs := '{}';
    c.tasks := NULL;
    c.snapshot := NULL;
    c.ahead := coalesce(c.ahead, '{}') + int8multirange(int8range(v_last + 1, v_last + v_skip + 1));
    c.ahead_n := windlass.count_seqs(v_ahead) + v_skip;
    INSERT INTO windlass.claim SELECT c.*;
    UPDATE windlass.lane SET epoch = p_epoch, skipped = skipped + v_skip WHERE id = l.id;
    PERFORM setval(l.position, v_last + v_skip, true), setval(l.idle, 1, true);
    IF v_orphans IS NULL THEN
        RETURN 0;
    END IF;
    DELETE FROM windlass.ready d USING unnest(v_orphans) AS u WHERE d.lane = u.lane AND d.seq = u.seq;
    PERFORM windlass.offer(l.id, cardinality(v_orphans), array_agg(u.task), array_agg(u.payload::text),
                           array_agg(u.options::text), array_agg(windlass.job_of(u)), array_agg(u.attempt),
                           array_agg(u.deaths), array_agg(windlass.enqueued_of(u)))
       FROM unnest(v_orphans) AS u;
    RETURN cardinality(v_orphans);
END $$;

-- Settles, in a copy, whether a unique key's twin missed an edit and owes a rerun: transaction ids of the
-- original cannot be compared with those of this server.
-- Callers: adopt, after all that ran was offered again or cancelled. May call: worker. Plan: indexed. Lock:
-- the keys' rows, held by adopt_copy. A twin that runs, or ended before its key could be freed, may have
-- missed the edit; the snapshot of its claim decides (see free_key).
-- A twin that starts later has not missed it.
CREATE OR REPLACE FUNCTION windlass.adopt_edits() RETURNS void
LANGUAGE sql AS $$
    UPDATE windlass.unique_key u SET touched = NULL,
           rerun = CASE WHEN EXISTS (SELECT FROM windlass.parent p
                                      WHERE p.id = u.job
                                        AND NOT pg_visible_in_snapshot(u.touched, p.snapshot))
                          OR EXISTS (SELECT FROM windlass.unsettled e
                                      WHERE e.job = u.job
                                        AND NOT pg_visible_in_snapshot(u.touched, e.snapshot))
                        THEN u.rerun END
     WHERE u.touched IS NOT NULL
$$;

-- ==== Numbers ====

-- Moves the sequence of job ids outside lanes past all that were given out, where a loss may have set it back
-- [S3], and the turns of waiting lists and places in groups past those that are there.
-- Callers: enqueue_one, enqueue_aside, enqueue_mixed, import_rows, import_parent, adopt, adopt_copy.
-- May call: worker. Plan: the caller's.
-- Lock: advisory, -1 of the schema's lock space, released at once, since sequences are not transactional:
-- nobody waits for a producer's transaction. p_highest: no id up to it is free; NULL: a producer asks, before
-- the store was adopted. ids_from is noted well ahead of use, so it is above every id given out; a sequence
-- below it has not been moved since the loss. The distance is random, so that two servers promoted from one
-- history diverge.
CREATE OR REPLACE FUNCTION windlass.skip_ids(p_highest bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_from bigint;
    v_last bigint;
BEGIN
    PERFORM windlass.check_unsubscribed();
    PERFORM pg_advisory_lock(windlass.lock_space(), -1);
    BEGIN
        SELECT m.ids_from INTO v_from FROM windlass.meta m WHERE m.single;
        v_last := greatest(pg_sequence_last_value('windlass.job_id'::regclass), p_highest, 0);
        IF p_highest IS NOT NULL OR v_last < v_from THEN
            PERFORM setval('windlass.job_id', s.high + windlass.skip_length(s.high), true)
               FROM (SELECT greatest(v_last, v_from) AS high) AS s;
            -- Logical replication brings no sequences: a new turn must not be below those that were copied.
            PERFORM setval(s.sequence, s.high, true)
               FROM (VALUES ('windlass.held_turn'::regclass,
                             greatest((SELECT max(h.turn) FROM windlass.held h),
                                      (SELECT max(greatest(p.turn, p.run)) FROM windlass.pass p))),
                            ('windlass.group_job_no_seq', (SELECT max(g.no) FROM windlass.group_job g)))
                 AS s (sequence, high)
              WHERE s.high > coalesce(pg_sequence_last_value(s.sequence), 0);
        END IF;
    EXCEPTION WHEN query_canceled OR OTHERS THEN
        PERFORM pg_advisory_unlock(windlass.lock_space(), -1);  -- it is the session's, and would stay with it
        RAISE;
    END;
    PERFORM pg_advisory_unlock(windlass.lock_space(), -1);
END $$;

-- How many numbers of 44 bits to pass over at the beginning of an epoch: half a billion to a billion, more
-- than any loss, and random, so that two servers promoted from one history diverge; less when few are left
-- [S3].
-- Callers: skip_ids, adopt, adopt_lane, declare_lane, rotation_begin. May call: worker.
-- Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.skip_length(p_last bigint) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT least((1 << 29) + floor(random() * (1 << 29))::bigint, (:ids.MAX_SEQ - p_last) / 4)
$$;
