-- The schema itself: its version, its roles, its clock, and the few words that every module uses of the logs.
-- The tables are in migrations/0001_logs.sql, which explains roles and lock order.

-- ==== Version and roles ====

-- The version of this schema and the fingerprint of its functions.
-- Callers: every role that opens the store. May call: worker, producer, reader. Lock: none.
CREATE OR REPLACE FUNCTION windlass.schema_version(OUT version int, OUT functions text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    SELECT m.version, m.functions FROM windlass.meta m
$$;

-- Notes what was migrated, and where: a copy elsewhere will know by that that it is one.
-- Callers: migrate, the DDL that `windlass sql` prints. May call: owner. Lock: the row of meta.
CREATE OR REPLACE FUNCTION windlass.stamp(
    p_version int, p_functions text, p_idempotency_retention float8 DEFAULT NULL,
    p_retention float8 DEFAULT NULL, p_size_limit bigint DEFAULT NULL, p_park_after int DEFAULT NULL)
RETURNS void
LANGUAGE sql AS $$
    UPDATE windlass.meta m
       SET version = p_version, functions = p_functions,
           idempotency_retention = coalesce(p_idempotency_retention, m.idempotency_retention),
           retention = coalesce(p_retention, m.retention), size_limit = coalesce(p_size_limit, m.size_limit),
           park_after = coalesce(p_park_after, m.park_after),
           system_identifier = coalesce(m.system_identifier, s.system_identifier),
           database = coalesce(m.database, d.oid), timeline = coalesce(m.timeline, windlass.server_timeline())
      FROM pg_control_system() AS s, pg_database d WHERE d.datname = current_database()
$$;

-- Gives an existing role what it needs to be a 'worker', 'producer' or 'reader', and nothing else [rule 11].
-- Callers: the owner. May call: owner. Lock: catalog rows. Each word in angle brackets becomes the functions
-- that the role may call, as their headers say. A worker may call all but the owner's.
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
-- Callers: every function here. May call: worker, reader. Lock: none.
-- One function returns it, so that a test can move it.
CREATE OR REPLACE FUNCTION windlass.now() RETURNS timestamptz
LANGUAGE sql VOLATILE AS $$ SELECT clock_timestamp() $$;

-- A moment some seconds from now, within a hundred years.
-- Callers: reoffer, lead, throttle. May call: worker. Lock: none.
CREATE OR REPLACE FUNCTION windlass.in_seconds(p_seconds float8) RETURNS timestamptz
LANGUAGE sql VOLATILE AS $$
    SELECT windlass.now() + make_interval(secs => least(greatest(p_seconds, 0), 3155760000))
$$;

-- The time in seconds since the epoch, as budgets and schedules count it; p_now where it is given.
-- Callers: the functions of budgets, admission, schedules and rollups, the store's readings.
-- May call: worker, reader. Lock: none.
CREATE OR REPLACE FUNCTION windlass.unix_time(p_now float8 DEFAULT NULL) RETURNS float8
LANGUAGE sql VOLATILE AS $$ SELECT coalesce(p_now, date_part('epoch', windlass.now())) $$;

-- The first key of this schema's advisory locks: the oid of its lane table.
-- Callers: lane_lock, claim, claim_room, try_lock_waiting, hold_unserved, adopt_lane, skip_ids.
-- May call: worker.
-- Lock: none.
CREATE OR REPLACE FUNCTION windlass.lock_space() RETURNS int
LANGUAGE sql STABLE AS $$ SELECT ('windlass.lane'::regclass::oid::bigint - 2147483648)::int $$;

-- The lane lock.
-- Callers: lock_lanes_of, end_aside, take_ahead, rotation_touch; claim takes the lock itself.
-- May call: worker.
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
-- Callers: every function that reads what a lock just taken protects. May call: worker. Lock: none.
CREATE OR REPLACE FUNCTION windlass.require_read_committed() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'this needs READ COMMITTED, and the transaction is %',
            upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'WL006', HINT = 'Call it outside of that transaction.';
    END IF;
END $$;

-- ==== Words of the logs ====

-- The job id of a ready row: the one it carries, or its position [rule 4].
-- Callers: many, the store's readings. May call: worker, reader. Lock: none.
CREATE OR REPLACE FUNCTION windlass.job_of(r windlass.ready) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT coalesce(r.id, r.lane::bigint << 44 | r.seq) $$;

-- When the job of a ready row was enqueued, however often it was offered since.
-- Callers: many, the store's readings. May call: worker, reader. Lock: none.
CREATE OR REPLACE FUNCTION windlass.enqueued_of(r windlass.ready) RETURNS timestamptz
LANGUAGE sql IMMUTABLE AS $$ SELECT coalesce(r.enqueued_at, r.offered_at) $$;

-- What of a claim is not finished: its seqs minus those of its outcomes. The one definition [rule 5].
-- Callers: everything that asks whether a claimed job has ended. May call: worker, reader. Lock: none.
CREATE OR REPLACE FUNCTION windlass.unfinished(p_claim bigint, p_seqs int8multirange) RETURNS int8multirange
LANGUAGE sql STABLE AS $$
    SELECT p_seqs - coalesce((SELECT range_agg(o.seqs) FROM windlass.outcome o WHERE o.claim = p_claim), '{}')
$$;

-- What one flush ended of a claim.
-- Callers: finish, finish_others, split. May call: worker. Lock: none.
CREATE OR REPLACE FUNCTION windlass.flushed_in(p_claim bigint, p_flush bigint) RETURNS int8multirange
LANGUAGE sql STABLE AS $$
    SELECT coalesce(range_agg(o.seqs), '{}') FROM windlass.outcome o
     WHERE o.claim = p_claim AND o.flush = p_flush
$$;

-- How many seqs a set holds.
-- Callers: claim_take, take_ahead, hole_state, open_claims, finish, depth, adopt_lane, lane_committed_depth.
-- May call: worker, reader. Lock: none.
CREATE OR REPLACE FUNCTION windlass.count_seqs(p_seqs int8multirange) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT coalesce(sum(upper(s) - lower(s)), 0)::bigint FROM unnest(p_seqs) AS s $$;

-- A set of seqs in one piece: what is in the claim row and what was spilled from it.
-- Callers: claim_take, take_ahead, rotation_move, adopt_lane, must_adopt, lane_depth, lane_committed_depth,
-- lane_head, lane_tasks, list_claims, list_spans. May call: worker, reader. Lock: none.
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
-- Callers: offer, declare_lane, finish, note_failure, import_rows, retry, retry_many, rotation_move,
-- rotation_move_failures, rotation_reclaim, adopt_lane. May call: worker.
-- Lock: ROW EXCLUSIVE on the partition of ready.
-- The number is read from a sequence, so no snapshot is too old for it, and it is read again after the lock:
-- whoever holds the lock on ready_N while N is not current took it before the switch. rotation_seal looks for
-- exactly those.
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

-- Notifies listeners that a queue has work, or that a job has ended.
-- Callers: offer, finish, split, end_parent, follow, mark_gates_changed, set_queue, warm. May call: worker.
-- Lock: the one that all notifying committers share, at commit.
-- A transaction that has notified cannot be prepared. One that will be says so first (SET LOCAL
-- windlass.notify = off); its jobs are found by polling, within seconds [rule 10].
CREATE OR REPLACE FUNCTION windlass.wake(p_word text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(current_setting('windlass.notify', true), 'on') <> 'off' THEN
        PERFORM pg_notify('windlass', p_word);
    END IF;
END $$;

-- Says that somebody waits for jobs to end, so that finish notifies.
-- Callers: the store's wait_finished, on each turn, since expire takes the mark away. May call: worker. Lock:
-- none.
CREATE OR REPLACE FUNCTION windlass.await_jobs() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    IF pg_sequence_last_value('windlass.awaited'::regclass) = 0 THEN
        PERFORM setval('windlass.awaited'::regclass, 1, true);
    END IF;
END $$;
