-- The cluster: the coordinator's term, the slots of workers, cool-downs of queues, and the chores that one
-- process does for all.

-- ==== Terms ====

-- Becomes or stays coordinator: returns the number of the term, or NULL while another holds one [K3].
-- Callers: the store. May call: worker. Plan: free. Lock: the leader row; that another leads is found out
-- without it.
CREATE OR REPLACE FUNCTION windlass.lead(p_candidate bigint, p_length float8) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    l windlass.leader;
BEGIN
    PERFORM windlass.check_epoch();
    SELECT * INTO l FROM windlass.leader;
    IF l.holder <> p_candidate AND windlass.term_runs(l) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO l FROM windlass.leader FOR UPDATE;
    IF l.holder <> p_candidate AND windlass.term_runs(l) THEN
        RETURN NULL;
    ELSIF NOT windlass.term_runs(l) THEN
        l.term := l.term + 1;
    END IF;
    UPDATE windlass.leader SET holder = p_candidate, term = l.term,
           until = windlass.in_seconds(least(p_length, 300));
    RETURN l.term;
END $$;

-- Ends a term early, so that another can lead at once; an older term changes nothing [K3].
-- Callers: the store. May call: worker. Plan: free. Lock: the leader row.
CREATE OR REPLACE FUNCTION windlass.resign(p_candidate bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    UPDATE windlass.leader SET holder = NULL, until = '-infinity' WHERE holder = p_candidate;
END $$;

-- Whether a coordinator's term has not run out [K3]. No term is longer than five minutes: one that ends later
-- was written before the clock was set back, and is over. MAX_TERM in windlass.core.clock says the same.
-- Callers: lead, check_term, assign. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.term_runs(l windlass.leader) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT t.now < l.until AND l.until <= t.now + interval ':clock.MAX_TERM s' + interval ':clock.SLIP s'
      FROM windlass.now() AS t (now)
$$;

-- Refuses a coordinator's write after its term is over [K3].
-- Callers: governed, govern, fire_schedule. May call: worker. Plan: the caller's. Lock: the leader row FOR
-- SHARE, so that no other term begins before this is committed.
CREATE OR REPLACE FUNCTION windlass.check_term(p_term bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM windlass.leader l WHERE l.term = p_term AND windlass.term_runs(l) FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'term % is over', p_term USING ERRCODE = 'WL009',
            HINT = 'Another host may coordinate now; call lead() again first.';
    END IF;
END $$;

-- ==== Slots ====

-- Replaces the whole assignment of slots, of workers that are alive; true if that changed anything [K1] [K3].
-- p_slots: [{"worker": ..., "queue": ..., "slots": ...}, ...].
-- Callers: the store. May call: worker. Plan: free. Lock: the leader row FOR SHARE, so that no other term
-- begins before this is committed; then the rows that change. Where nothing changes nothing is written, not
-- even a row lock: the coordinator asks every second or two.
CREATE OR REPLACE FUNCTION windlass.assign(p_term bigint, p_slots json) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_wanted windlass.slot[];
    v_lost   boolean;
BEGIN
    SELECT l.term <> p_term OR NOT windlass.term_runs(l) INTO v_lost FROM windlass.leader l;
    IF NOT v_lost THEN
        SELECT coalesce(array_agg(ROW (x.worker, x.queue, x.slots)::windlass.slot), '{}') INTO v_wanted
          FROM json_to_recordset(p_slots) AS x (worker bigint, queue text, slots int)
          JOIN windlass.worker_life w ON w.id = x.worker AND w.alive;
        IF NOT EXISTS (SELECT worker, queue, slots FROM windlass.slot
                           EXCEPT SELECT worker, queue, slots FROM unnest(v_wanted))
           AND NOT EXISTS (SELECT worker, queue, slots FROM unnest(v_wanted)
                           EXCEPT SELECT worker, queue, slots FROM windlass.slot) THEN
            RETURN false;
        END IF;
        PERFORM FROM windlass.leader l WHERE l.term = p_term AND windlass.term_runs(l) FOR SHARE;
        v_lost := NOT FOUND;
    END IF;
    IF v_lost THEN
        RAISE EXCEPTION 'term % is over', p_term USING ERRCODE = 'WL009',
            HINT = 'Another host may coordinate now; call lead() again first.';
    END IF;
    DELETE FROM windlass.slot s
     WHERE NOT EXISTS (SELECT FROM unnest(v_wanted) AS w WHERE w.worker = s.worker AND w.queue = s.queue);
    INSERT INTO windlass.slot AS s (worker, queue, slots) SELECT worker, queue, slots FROM unnest(v_wanted)
    ON CONFLICT (worker, queue) DO UPDATE SET slots = excluded.slots WHERE s.slots <> excluded.slots;
    PERFORM windlass.wake('@');
    RETURN true;
END $$;

-- ==== Cooling down ====

-- Cools a whole queue after a handler was throttled, and returns the seconds until it gives out jobs again
-- [O3].
-- Callers: the store. May call: worker. Plan: free. Lock: the queue's row, waited for 1 s at most: the caller
-- copes with a failure. Only the first throttle in a window counts. The others come at about the same moment:
-- they find the queue cooling, and read for how long without a lock.
CREATE OR REPLACE FUNCTION windlass.throttle(p_queue text, p_hint float8 DEFAULT NULL) RETURNS float8
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '1s' AS $$
DECLARE
    q       windlass.queue;
    v_left  float8;
    v_delay float8;
BEGIN
    SELECT * INTO q FROM windlass.queue WHERE name = p_queue;
    IF NOT FOUND THEN
        PERFORM windlass.check_name('queue', p_queue);
        INSERT INTO windlass.queue (name) VALUES (p_queue) ON CONFLICT DO NOTHING;
    ELSE
        v_left := windlass.cooldown_left(q);
        IF v_left > 0 THEN
            RETURN v_left;
        END IF;
    END IF;
    SELECT * INTO q FROM windlass.queue WHERE name = p_queue FOR NO KEY UPDATE;
    v_left := windlass.cooldown_left(q);
    IF v_left > 0 THEN
        RETURN v_left;
    END IF;
    v_delay := q.cool_base * CASE WHEN q.backoff THEN 2 ^ least(q.throttles, 30) ELSE 1 END;
    v_delay := least(greatest(v_delay, p_hint), q.cool_cap);
    UPDATE windlass.queue SET throttles = throttles + 1, cool_until = windlass.in_seconds(v_delay)
     WHERE name = p_queue;
    RETURN v_delay;
END $$;

-- Seconds until a queue gives out jobs again; 0 where it is not cooling down [O3]. A cool-down that ends
-- later than the queue's cap allows was written before the clock was set back, and is over.
-- Callers: claim_take, hand_over, lane_heads, throttle, the store's readings. May call: worker, reader.
-- Plan: the caller's.
-- Lock: none.
CREATE OR REPLACE FUNCTION windlass.cooldown_left(q windlass.queue) RETURNS float8
LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN q.cool_until IS NULL THEN 0
                ELSE (SELECT CASE WHEN c.left_s BETWEEN 0 AND q.cool_cap + 1 THEN c.left_s ELSE 0 END
                        FROM (SELECT date_part('epoch', q.cool_until - windlass.now()) AS left_s) AS c) END
$$;

-- Forgets the throttles of a queue where nothing was throttled for 120 s after its last cool-down, or at once
-- where an operator says so; true if it did [O3].
-- Callers: the store. May call: worker. Plan: free. Lock: the queue's row, where there is something to
-- forget, waited for 1 s at most.
CREATE OR REPLACE FUNCTION windlass.warm(p_queue text, p_force boolean DEFAULT false) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '1s' AS $$
BEGIN
    UPDATE windlass.queue SET throttles = 0, cool_until = NULL
     WHERE name = p_queue AND throttles > 0
       AND (p_force OR cool_until <= windlass.now() - interval ':retry.CALM s');
    IF FOUND AND p_force THEN
        -- Who asked meanwhile was told that it cools, and gave it no slots.
        PERFORM windlass.wake(p_queue), windlass.wake('@');
        RETURN true;
    END IF;
    RETURN FOUND;
END $$;

-- ==== Chores ====

-- Begins a chore, unless somebody has begun it within the last p_every seconds.
-- Callers: the store. May call: worker. Plan: free. Lock: the row.
CREATE OR REPLACE FUNCTION windlass.begin_chore(p_name text, p_every float8) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO windlass.chore AS t (name, at) VALUES (p_name, windlass.now())
    ON CONFLICT (name) DO UPDATE SET at = excluded.at
     WHERE t.at NOT BETWEEN excluded.at - make_interval(secs => p_every) + interval '1 microsecond'
                        AND excluded.at + interval '1 s';
    RETURN FOUND;
END $$;

-- Which of the chores that move jobs into lanes have work, so that an idle cluster sends one query, not five.
-- Callers: the store's promote. May call: worker. Plan: pinned. Lock: none.
CREATE OR REPLACE FUNCTION windlass.upkeep(
    OUT settle_rest boolean, OUT clock_back boolean, OUT replace_step boolean, OUT admit boolean,
    OUT changed_gates boolean, OUT passes boolean, OUT pressure boolean, OUT follow boolean,
    OUT advance boolean, OUT cancel boolean, OUT put_off boolean, OUT expired boolean, OUT signals boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    SELECT EXISTS (SELECT FROM windlass.unsettled),
           EXISTS (SELECT FROM windlass.deferred_watermark
                    WHERE run_at > windlass.now() + interval '1 second'),
           EXISTS (SELECT FROM windlass.deferred WHERE replaces IS NOT NULL)
           OR EXISTS (SELECT FROM windlass.held WHERE replaces IS NOT NULL),
           -- From the newest on: under an open snapshot the old ones may long be gone.
           (SELECT h.id FROM windlass.held h ORDER BY h.id DESC LIMIT 1) IS NOT NULL,
           EXISTS (SELECT FROM windlass.changed_gate c
                    WHERE c.xid >= (SELECT k.noted FROM windlass.gate_look k)),
           (SELECT p.job FROM windlass.pass p ORDER BY p.job DESC LIMIT 1) IS NOT NULL,
           EXISTS (SELECT FROM windlass.queue q WHERE q.max_depth IS NOT NULL OR q.pressure <> 'none'),
           EXISTS (SELECT FROM windlass.after_due)
           OR EXISTS (SELECT FROM windlass.after_edge e WHERE e.fresh),
           EXISTS (SELECT FROM windlass.part_event),
           EXISTS (SELECT FROM windlass.cancel_request q
                    CROSS JOIN LATERAL (SELECT FROM windlass.parent p
                                         WHERE p.id = q.job AND p.state = 'waiting' LIMIT 1) AS p),
           EXISTS (SELECT FROM windlass.cancel_request q
                    CROSS JOIN LATERAL (SELECT FROM windlass.deferred d WHERE d.id = q.job
                                         UNION ALL
                                        SELECT FROM windlass.held h WHERE h.id = q.job LIMIT 1) AS w),
           EXISTS (SELECT FROM windlass.expiry e WHERE e.at <= windlass.now()),
           EXISTS (SELECT FROM windlass.signal_note n
                    WHERE n.xid >= (SELECT k.noted FROM windlass.signal_look k))
      INTO settle_rest, clock_back, replace_step, admit, changed_gates, passes, pressure, follow, advance,
      cancel, put_off, expired, signals;
END $$;

-- Publishes the oldest xid that may still own a hole: the oldest that holds a lock on ready [rule 3].
-- Callers: the store's promote, about once a second. May call: worker. Plan: free. Lock: none.
-- An unrelated transaction, even in another database, holds back the cluster's xmin, but not this. It takes
-- its own xid first. A producer that does not show in pg_locks after that draws its numbers later, so it
-- cannot own a hole whose horizon is at most that xid.
CREATE OR REPLACE FUNCTION windlass.publish_horizon() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_own    bigint := pg_current_xact_id()::text::bigint;
    v_oldest bigint;
BEGIN
    SELECT min(windlass.full_xid(x.transactionid, v_own)) INTO v_oldest
      FROM pg_locks l
      JOIN pg_locks x ON x.virtualtransaction = l.virtualtransaction AND x.locktype = 'transactionid'
                     AND x.mode = 'ExclusiveLock' AND x.granted
     WHERE l.locktype = 'relation' AND l.relation = 'windlass.ready'::regclass
       AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND l.mode = 'RowExclusiveLock' AND l.granted;
    v_oldest := least(v_oldest, v_own);
    IF v_oldest > pg_sequence_last_value('windlass.horizon'::regclass) THEN
        PERFORM setval('windlass.horizon'::regclass, v_oldest, true);
    END IF;
    RETURN v_oldest;
END $$;

-- The 64-bit form of a 32-bit xid, given a full xid of about the same time.
-- Callers: publish_horizon. May call: worker. Plan: the caller's. Lock: none.
-- The distance is taken as signed: the xid may be a little older or a little newer.
CREATE OR REPLACE FUNCTION windlass.full_xid(p_xid xid, p_near bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_near - (((p_near - p_xid::text::bigint + 2147483648) & 4294967295) - 2147483648)
$$;

-- One bounded step of retention outside the logs [K6]. `more`: a limit was reached, so there may be more.
-- Callers: the store. May call: worker. Plan: pinned, ordered, nested. Lock: the rows it removes, without
-- waiting [S2]: a row that somebody is changing has not expired.
CREATE OR REPLACE FUNCTION windlass.expire(p_limit int, OUT dead bigint, OUT keys bigint, OUT workers bigint,
                                           OUT parents bigint, OUT more boolean)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_now    timestamptz := windlass.now();
    v_parent bigint;
    v_parts  bigint;
    v_notes  bigint;
    v_saved  bigint;
    v_full   bigint;
    v_deaths bigint;
    v_marks  bigint;
    v_starts bigint;
    v_steps  int;
    v_stream int;
    v_groups int;
BEGIN
    WITH old AS (
        SELECT d.id FROM windlass.queue q
         CROSS JOIN LATERAL (SELECT x.id FROM windlass.dead x
                              WHERE x.queue = q.name
                                AND x.died_at <= v_now - make_interval(secs => q.dead_retention)
                              LIMIT p_limit FOR UPDATE SKIP LOCKED) AS d
         LIMIT p_limit)
    DELETE FROM windlass.dead d WHERE d.id = ANY (ARRAY(SELECT id FROM old));
    GET DIAGNOSTICS dead = ROW_COUNT;
    WITH old AS (
        SELECT i.key FROM windlass.idempotency i
         WHERE i.at <= v_now - make_interval(secs => (SELECT m.idempotency_retention FROM windlass.meta m
                                                       WHERE m.single))
         ORDER BY i.at LIMIT p_limit FOR UPDATE SKIP LOCKED)
    DELETE FROM windlass.idempotency i WHERE i.key = ANY (ARRAY(SELECT key FROM old));
    GET DIAGNOSTICS keys = ROW_COUNT;
    DELETE FROM windlass.key_death k
     WHERE k.key = ANY (ARRAY(SELECT x.key FROM windlass.key_death x
                               WHERE x.at <= v_now - interval ':retry.FORGET_AFTER s'
                               ORDER BY x.at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_deaths = ROW_COUNT;
    parents := 0;
    FOR v_parent IN SELECT p.id FROM windlass.queue q CROSS JOIN windlass.meta m
                      JOIN windlass.parent p ON p.queue = q.name AND p.state <> 'waiting'
                       AND p.finished_at <= v_now - make_interval(
                               secs => CASE WHEN p.state = 'dead' THEN q.dead_retention
                                            ELSE least(q.retention, m.retention) END)
                     LIMIT p_limit FOR UPDATE OF p SKIP LOCKED LOOP
        PERFORM windlass.drop_parent(v_parent);
        parents := parents + 1;
    END LOOP;
    v_parts := windlass.drop_parts(p_limit);
    DELETE FROM windlass.ended_otherwise o
     WHERE o.job = ANY (ARRAY(SELECT x.job FROM windlass.ended_otherwise x
                               WHERE x.at <= v_now - interval '7 days'
                               ORDER BY x.at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_notes = ROW_COUNT;
    -- Claims may name a worker for as long as the logs keep them, but its rows can go sooner: a worker
    -- without rows counts as dead.
    WITH old AS (
        SELECT l.id FROM windlass.worker_life l JOIN windlass.worker_heartbeat b ON b.id = l.id
         WHERE l.settled AND NOT l.alive AND b.at <= v_now - interval '1 day' LIMIT p_limit
           FOR UPDATE SKIP LOCKED),
    heartbeats AS (DELETE FROM windlass.worker_heartbeat b WHERE b.id IN (SELECT id FROM old)),
    infos AS (DELETE FROM windlass.worker w WHERE w.id IN (SELECT id FROM old))
    DELETE FROM windlass.worker_life l WHERE l.id IN (SELECT id FROM old);
    GET DIAGNOSTICS workers = ROW_COUNT;
    -- As in finish: the snapshot that says which jobs have ended must be younger than any rotation that moved
    -- them.
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    DELETE FROM windlass.cancel_request q
     WHERE q.job IN (SELECT x.job FROM windlass.cancel_request x
                      WHERE x.at < v_now - interval '1 minute'
                        AND NOT windlass.is_unfinished(x.job) LIMIT p_limit FOR UPDATE SKIP LOCKED);
    -- A success removes only the checkpoints that its worker wrote or loaded itself; the others are removed
    -- here.
    DELETE FROM windlass.checkpoint k
     WHERE k.job IN (SELECT x.job FROM windlass.checkpoint x
                      WHERE x.at < v_now - interval '1 day' AND NOT windlass.is_unfinished(x.job)
                        AND NOT EXISTS (SELECT FROM windlass.part t WHERE t.job = x.job)
                      LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS v_saved = ROW_COUNT;
    DELETE FROM windlass.order_mark m
     WHERE m.ctid = ANY (ARRAY(
        SELECT x.ctid FROM windlass.order_mark x
         WHERE x.at <= v_now - interval '30 days'
           AND NOT EXISTS (SELECT FROM windlass.held h WHERE h.gate = 'order:' || x.queue || '/' || x.key
                           OFFSET 0)
           AND NOT EXISTS (SELECT FROM windlass.pass p WHERE p.gate = 'order:' || x.queue || '/' || x.key
                           OFFSET 0)
         LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_marks = ROW_COUNT;
    -- Lists that are gone need no start; one that is needed is written down again.
    DELETE FROM windlass.list_start s
     WHERE s.ctid = ANY (ARRAY(
        SELECT x.ctid FROM windlass.list_start x
         WHERE NOT EXISTS (SELECT FROM windlass.held h WHERE h.gate = x.gate AND h.turn >= x.turn OFFSET 0)
           AND NOT EXISTS (SELECT FROM windlass.pass p WHERE p.gate = x.gate AND p.run >= x.run OFFSET 0)
         LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_starts = ROW_COUNT;
    DELETE FROM windlass.seq_set s
     WHERE NOT EXISTS (SELECT FROM windlass.cursor_of(s.lane) c
                        WHERE s.id = ANY (c.spilled) OR s.id = ANY (c.ahead_spilled))
       AND s.id < (SELECT last_value - 1000 FROM windlass.seq_set_id);
    v_full := windlass.expire_buckets(p_limit);
    v_steps := windlass.expire_steps(2 * p_limit) + windlass.expire_signals(p_limit);
    v_stream := windlass.expire_streams(p_limit);
    DELETE FROM windlass.signal_once o
     WHERE o.token = ANY (ARRAY(SELECT x.token FROM windlass.signal_once x WHERE x.until < windlass.now()
                                 ORDER BY x.until LIMIT p_limit));
    v_groups := windlass.expire_groups(p_limit);
    PERFORM setval('windlass.awaited'::regclass, 0, true);
    more := greatest(dead, keys, workers, parents, v_parts, v_notes, v_saved, v_full, v_deaths,
                     v_marks, v_starts, v_steps, v_stream, v_groups) >= p_limit;
END $$;

-- ==== Statements that the store sends ====

-- :cluster_view
-- What a host needs to know each second: all queues, the slots of its workers ($1), who serves what [K1]
-- [K2], and a stamp of the cancels that are requested. Of the queues, where their stamp is still $2, those
-- whose readings change by themselves; who serves what, unless the stamp of the workers is still $3.
-- Callers: the store's cluster_view. Lock: none.
-- One statement, so one snapshot.
SELECT t.stamp, y.stamp AS workers,
       (SELECT json_object_agg(q.name, to_jsonb(q) || jsonb_build_object('cooling', windlass.cooldown_left(q))
                                       || windlass.flow_of(q))
          FROM windlass.queue q
         WHERE t.stamp IS DISTINCT FROM $2 OR windlass.changes_itself(q)) AS queues,
       (SELECT json_object_agg(w.worker, w.slots)
          FROM (SELECT s.worker, json_object_agg(s.queue, s.slots) AS slots
                  FROM windlass.slot s WHERE s.worker = ANY ($1::bigint[]) GROUP BY s.worker) AS w) AS slots,
       CASE WHEN y.stamp IS DISTINCT FROM $3 THEN
       (SELECT json_object_agg(a.queue, a.n)
          FROM (SELECT u.queue, count(DISTINCT w.id) AS n
                  FROM windlass.worker w JOIN windlass.worker_life l USING (id)
                 CROSS JOIN unnest(w.queues) AS u (queue)
                 WHERE l.alive GROUP BY u.queue) AS a) END AS serving,
       (SELECT concat_ws(':', count(*), max(c.at)) FROM windlass.cancel_request c) AS cancels
  FROM windlass.queues_stamp() AS t (stamp)
 CROSS JOIN (SELECT concat_ws(':', count(*), sum(hashint8extended(w.id, w.xmin::text::bigint))) AS stamp
               FROM windlass.worker w JOIN windlass.worker_life l USING (id) WHERE l.alive) AS y
