-- Limits of whole queues: how many jobs run, how many may wait, and the pressure that producers see.

-- ==== What runs ====

-- Takes the lock of a queue whose claims are limited, before that of the lane: its holder may count what runs
-- and give out what is left. False: another held it for longer than p_wait ms.
-- Callers: claim. May call: worker. Plan: free. Lock: advisory, (oid of the queue table, hash of the queue),
-- until the transaction ends.
CREATE OR REPLACE FUNCTION windlass.queue_lock(p_lane int, p_wait int) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_space  int := ('windlass.queue'::regclass::oid::bigint - 2147483648)::int;
    v_key    int := (SELECT hashtext(l.queue) FROM windlass.lane l WHERE l.id = p_lane);
    v_before text := current_setting('lock_timeout');
BEGIN
    IF NOT pg_try_advisory_xact_lock(v_space, v_key) THEN
        PERFORM set_config('lock_timeout', p_wait || 'ms', true);
        PERFORM pg_advisory_xact_lock(v_space, v_key);
        PERFORM set_config('lock_timeout', v_before, true);
    END IF;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

-- How many jobs a claim of a limited queue may take: as many as its concurrency leaves free, counted from
-- claims that have not ended [F3], and no more than its governor's rate allows [F2]. Where that is none:
-- status 'full', until one ends, or 'slow', until the rate allows more.
-- Callers: claim. May call: worker. Plan: free. Lock: none; the caller holds those of the queue and of this
-- lane. Where the limit is new those of its other lanes, without waiting: a claim that began before may be
-- under way there, and is counted when it has ended; till then 'busy'. It writes nothing where there is room:
-- a claim must get its xid later (see claim_take).
CREATE OR REPLACE FUNCTION windlass.claim_room(p_lane int, p_limit int, OUT room int, OUT status text)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    q windlass.queue;
BEGIN
    SELECT x.* INTO q FROM windlass.queue x JOIN windlass.lane l ON l.queue = x.name WHERE l.id = p_lane;
    room := p_limit;
    IF q.concurrency IS NOT NULL AND NOT EXISTS (SELECT FROM windlass.limited_queue x WHERE x.queue = q.name)
       AND EXISTS (SELECT FROM windlass.lane l WHERE l.queue = q.name AND l.id <> p_lane
                      AND NOT pg_try_advisory_xact_lock(windlass.lock_space(), l.id)) THEN
        room := 0;
        status := 'busy';
        RETURN;
    END IF;
    IF q.concurrency IS NOT NULL THEN
        room := greatest(least(room, q.concurrency - (SELECT coalesce(sum(o.n), 0)
                                                        FROM windlass.open_claims(q.name) AS o)), 0);
        status := CASE WHEN room < 1 THEN 'full' END;
    END IF;
    IF q.governor AND room > 0 THEN
        room := least(room, windlass.bucket_tokens('queue:' || q.name, ''));
        IF room < 1 THEN
            status := 'slow';
            PERFORM windlass.bucket_resume('queue:' || q.name, '');
        END IF;
    END IF;
END $$;

-- Counts a claim of a limited queue: takes its governor's tokens, and notes it as open until it is found to
-- have ended [F2] [F3]. False: the bucket is locked by another, as in bucket_try, and the caller must roll
-- back.
-- Callers: claim, after claim_take. May call: worker. Plan: free. Lock: the bucket's row; the caller holds
-- the locks of queue and lane.
CREATE OR REPLACE FUNCTION windlass.claim_count(
    p_lane int, p_claim bigint, p_n int, p_wait int) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    q windlass.queue;
BEGIN
    SELECT x.* INTO q FROM windlass.queue x JOIN windlass.lane l ON l.queue = x.name WHERE l.id = p_lane;
    IF q.concurrency IS NOT NULL THEN
        WITH known AS MATERIALIZED (SELECT o.claim, o.lane, o.n FROM windlass.open_claims(q.name) AS o),
        ended AS (DELETE FROM windlass.open_claim x USING known k
                   WHERE x.queue = q.name AND x.claim = k.claim AND k.n = 0)
        INSERT INTO windlass.open_claim (queue, claim, lane)
        SELECT q.name, k.claim, k.lane FROM known k WHERE k.n > 0
         UNION
        SELECT q.name, p_claim, p_lane
        ON CONFLICT DO NOTHING;
        -- Not ON CONFLICT alone: that would wait for an open set_queue that removes the row.
        INSERT INTO windlass.limited_queue (queue)
        SELECT q.name WHERE NOT EXISTS (SELECT FROM windlass.limited_queue x WHERE x.queue = q.name)
            ON CONFLICT DO NOTHING;
    END IF;
    IF q.governor THEN
        IF NOT windlass.bucket_try('queue:' || q.name, '', p_wait) THEN
            RETURN false;
        END IF;
        PERFORM windlass.bucket_take('queue:' || q.name, '', p_n, false);
    END IF;
    RETURN true;
END $$;

-- The claims of a queue that have not ended, each with its number of unfinished jobs [F3].
-- Callers: claim_room, claim_count. May call: worker. Plan: pinned. Lock: none; the caller holds that of the
-- queue.
-- A queue with a limit keeps a list of its open claims; if the limit is new, the claims of all workers are
-- read, as in depth.
CREATE OR REPLACE FUNCTION windlass.open_claims(p_queue text) RETURNS TABLE (claim bigint, lane int, n bigint)
LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM windlass.limited_queue q WHERE q.queue = p_queue) THEN
        RETURN QUERY
        SELECT o.claim, o.lane, coalesce(c.n, 0)
          FROM windlass.open_claim o
          LEFT JOIN LATERAL (SELECT windlass.count_seqs(windlass.unfinished(x.id, x.seqs)) AS n
                               FROM windlass.claim x
                              WHERE x.lane = o.lane AND x.id = o.claim LIMIT 1) AS c ON true
         WHERE o.queue = p_queue;
    ELSE
        RETURN QUERY
        SELECT h.id, h.lane, h.n
          FROM windlass.worker_life w
          JOIN windlass.worker_heartbeat b ON b.id = w.id
         CROSS JOIN LATERAL (SELECT c.id, c.lane, windlass.count_seqs(windlass.unfinished(c.id, c.seqs)) AS n
                               FROM windlass.claim c
                              WHERE c.worker = w.id AND c.n > 0 AND c.worker <> 0 AND c.id >= b.floor
                             OFFSET 0) AS h
          JOIN windlass.lane l ON l.id = h.lane
         WHERE NOT w.settled AND l.queue = p_queue AND h.n > 0;
    END IF;
END $$;

-- ==== Load: shed and full ====

-- Checks a whole call against the load of its queues, once per queue and priority, as they stand before the
-- call [F4] [F5]. p_keys: the jobs' idempotency keys; a queue is skipped where all its jobs were seen before.
-- Callers: enqueue_mixed. May call: worker, producer. Plan: free. Lock: none.
CREATE OR REPLACE FUNCTION windlass.check_call_load(
    p_queues text[], p_priorities smallint[], p_keys text[]) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
    SELECT windlass.check_load(u.queue, u.priority, u.n)
      FROM (SELECT x.queue, x.priority, count(*)::int AS n, min(x.i) AS i
              FROM unnest(p_queues, p_priorities, p_keys) WITH ORDINALITY AS x (queue, priority, key, i)
             WHERE x.queue IN (SELECT y.queue FROM unnest(p_queues, p_keys) AS y (queue, key)
                                WHERE y.key IS NULL
                                   OR NOT EXISTS (SELECT FROM windlass.idempotency k, windlass.meta m
                                                   WHERE k.key = y.key
                                                     AND k.at > windlass.now()
                                                              - make_interval(secs
                                                                      => m.idempotency_retention)))
             GROUP BY x.queue, x.priority) AS u
     ORDER BY u.i
$$;

-- Refuses p_n new jobs of a priority where the queue or the store is overloaded: first Shed [F5], then
-- QueueFull [F4]. The same as in windlass.core.flow.admission.
-- Callers: enqueue_many, enqueue_one, check_call_load. May call: worker. Plan: the caller's. Lock: none.
-- A queue without such limits costs one read of its row. Before anything is refused, committed jobs are
-- counted instead of positions [S2]. A refusal rolls back the caller's transaction, so the caller counts it:
-- see note_refused.
CREATE OR REPLACE FUNCTION windlass.check_load(p_queue text, p_priority smallint, p_n int) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    q         windlass.queue;
    l         record;
    v_latency float8;
    v_level   float8;
    v_seen    boolean;
    v_sheds   boolean;
    v_full    boolean;
BEGIN
    SELECT * INTO q FROM windlass.queue x
     WHERE x.name = p_queue AND num_nonnulls(x.max_depth, x.shed_depth, x.shed_wait, x.shed_latency) > 0;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF q.shed_latency IS NOT NULL THEN
        SELECT o.latency INTO v_latency FROM windlass.observed o
         WHERE o.at > windlass.unix_time() - :admission.LATENCY_COUNTS;
    END IF;
    FOREACH v_seen IN ARRAY ARRAY[false, true] LOOP
        SELECT * INTO l FROM windlass.queue_load(
            p_queue, ceil(greatest(q.max_depth * :admission.URGENT, q.shed_depth))::bigint,
            q.shed_wait IS NOT NULL, v_seen);
        v_level := windlass.shed_level(q, l.depth, l.wait, v_latency);
        v_sheds := v_level >= :admission.EMERGENCY AND p_priority > 0
                   OR v_level >= :admission.CRITICAL AND p_priority > 1
                   OR v_level >= :admission.WARNING AND p_priority > 2;
        v_full := windlass.pressure_at(q, l.depth) = 'full'
                  AND (p_priority <> 0 OR l.depth >= q.max_depth * :admission.URGENT);
        IF NOT v_sheds AND NOT v_full THEN
            RETURN;
        END IF;
    END LOOP;
    IF v_sheds THEN
        RAISE EXCEPTION 'queue % is overloaded, at % of its limit, and refuses jobs of priority %', p_queue,
            to_char(v_level * 100, 'FM999999990%'), (ARRAY[:states.PriorityName])[p_priority + 1]
            USING ERRCODE = 'WL012',
                  DETAIL = json_build_object('queue', p_queue, 'retry_after', :admission.SHED_RETRY_AFTER,
                                             'level', v_level, 'n', p_n),
                  HINT = 'Try again in :admission.SHED_RETRY_AFTER s, '
                         'or enqueue with a higher priority what cannot wait';
    ELSE
        RAISE EXCEPTION 'queue % is full: % ready, and its max_depth is %', p_queue,
            CASE l.depth WHEN 1 THEN '1 job is' ELSE to_char(l.depth, 'FM999,999,999,990') || ' jobs are' END,
            to_char(q.max_depth, 'FM999,999,999,990')
            USING ERRCODE = 'WL011',
                  DETAIL = json_build_object('queue', p_queue, 'retry_after', :admission.FULL_RETRY_AFTER,
                                             'n', p_n),
                  HINT = 'Try again in :admission.FULL_RETRY_AFTER s; '
                         'it takes jobs again when it has fallen to 60%';
    END IF;
END $$;

-- How many jobs of a queue are ready, and for how many seconds the oldest of them has waited.
-- Callers: check_load, pressure_now, pressure_of, governed. May call: worker. Plan: generic, pinned.
-- Lock: none.
-- The depth is that of positions, so O(lanes), or with p_seen of what has committed (see
-- lane_committed_depth), which costs more and is used only before a refusal; jobs aside are counted no
-- further than p_enough, and the wait is looked for only where p_wait asks for it. Its plan is cached
-- [rule 8]: planning lane_head's LIMIT anew each time would take longer than all the rest.
CREATE OR REPLACE FUNCTION windlass.queue_load(
    p_queue text, p_enough bigint, p_wait boolean, p_seen boolean DEFAULT false, OUT depth bigint,
    OUT wait float8)
LANGUAGE plpgsql AS $$
DECLARE
    v_first timestamptz;
    v_aside timestamptz;
BEGIN
    SELECT coalesce(sum(CASE WHEN p_seen THEN windlass.lane_committed_depth(l.id, p_enough)
                        ELSE windlass.lane_depth(l.id) END), 0) INTO depth
      FROM windlass.lane l WHERE l.queue = p_queue;
    IF depth < p_enough THEN
        depth := depth + (SELECT count(*) FROM (SELECT FROM windlass.held h WHERE h.queue = p_queue
                                                 LIMIT p_enough - depth) AS x);
    END IF;
    IF p_wait THEN
        SELECT min(windlass.lane_head(l.id, 100)) INTO v_first FROM windlass.lane l WHERE l.queue = p_queue;
        SELECT h.since INTO v_aside FROM windlass.held h WHERE h.queue = p_queue ORDER BY h.since LIMIT 1;
        wait := coalesce(date_part('epoch', windlass.now() - least(v_first, v_aside)), 0);
    END IF;
END $$;

-- How overloaded a queue is: the largest of depth, oldest wait and store latency, each over its limit [F5].
-- The same as in windlass.core.flow.admission.
-- Callers: check_load. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.shed_level(
    q windlass.queue, p_depth bigint, p_wait float8, p_latency float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(greatest(p_depth / nullif(q.shed_depth, 0)::float8, p_wait / nullif(q.shed_wait, 0),
                             p_latency / nullif(q.shed_latency, 0)), 0)
$$;

-- Counts jobs that a queue has refused or shed, in a transaction of its own: the producer's has rolled back
-- [F4] [F5]. A queue that refused is full from then on, until it falls to 60 %.
-- Callers: the store, which ignores a failure. May call: worker, producer. Plan: free. Lock: the queue's row,
-- waited for 100 ms at most.
CREATE OR REPLACE FUNCTION windlass.note_refused(p_queue text, p_n int, p_shed boolean) RETURNS void
LANGUAGE sql SECURITY DEFINER SET lock_timeout = '100ms' AS $$
    UPDATE windlass.queue q
       SET refused = q.refused + CASE WHEN p_shed THEN 0 ELSE p_n END,
                                           shed = q.shed + CASE WHEN p_shed THEN p_n ELSE 0 END,
           pressure = CASE WHEN p_shed OR q.max_depth IS NULL THEN q.pressure ELSE 'full' END
     WHERE q.name = p_queue AND p_n > 0 AND p_shed IS NOT NULL
$$;

-- Notes how long the store took to answer, as the coordinator measured it: shed_latency uses it for 30 s
-- [F5].
-- Callers: the store. May call: worker. Plan: free. Lock: the one row.
CREATE OR REPLACE FUNCTION windlass.observe(p_latency float8) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
    UPDATE windlass.observed SET latency = p_latency, at = windlass.unix_time()
$$;

-- ==== Pressure ====

-- How full a queue with a max_depth is [F4]: {"fill": ..., "was": ..., "is": ...}, where `was` is the
-- pressure noted last and `is` the present one; NULL below 70 % where the two are equal.
-- Callers: enqueue_mixed, the store and the adapters, with each enqueue. May call: worker, producer. Plan:
-- free. Lock: none.
-- A queue without a max_depth costs one look at its row.
CREATE OR REPLACE FUNCTION windlass.pressure_of(p_queue text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    q       windlass.queue;
    v_depth bigint;
    v_is    text;
BEGIN
    SELECT * INTO q FROM windlass.queue x WHERE x.name = p_queue AND x.max_depth IS NOT NULL;
    IF FOUND THEN
        SELECT l.depth INTO v_depth
          FROM windlass.queue_load(p_queue, ceil(q.max_depth * :admission.URGENT)::bigint, false) AS l;
        v_is := windlass.pressure_at(q, v_depth);
        IF v_is <> q.pressure THEN
            SELECT l.depth INTO v_depth
              FROM windlass.queue_load(p_queue, ceil(q.max_depth * :admission.URGENT)::bigint, false,
                                       true) AS l;
            v_is := windlass.pressure_at(q, v_depth);
        END IF;
        IF v_is <> q.pressure OR v_depth >= q.max_depth * :admission.SOFT THEN
            RETURN json_build_object('fill', v_depth::float8 / q.max_depth, 'was', q.pressure, 'is', v_is);
        END IF;
    END IF;
    RETURN NULL;
END $$;

-- The current pressure on a queue [F4].
-- Callers: note_pressure, flow_of. May call: worker. Plan: the caller's. Lock: none.
-- Where positions show pressure, committed jobs are counted: see lane_committed_depth.
CREATE OR REPLACE FUNCTION windlass.pressure_now(q windlass.queue) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_pressure text := windlass.pressure_at(q, (SELECT l.depth
                                                  FROM windlass.queue_load(q.name, q.max_depth, false) AS l));
BEGIN
    IF v_pressure <> 'none' THEN
        v_pressure := windlass.pressure_at(q, (SELECT l.depth
                                                 FROM windlass.queue_load(q.name, q.max_depth, false,
                                                         true) AS l));
    END IF;
    RETURN v_pressure;
END $$;

-- The pressure on a queue at a depth, with hysteresis: it rises at 70 % and 100 %, and falls at 60 % [F4].
-- The same as in windlass.core.flow.admission.
-- Callers: check_load, pressure_now, pressure_of. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.pressure_at(q windlass.queue, p_depth bigint) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN q.max_depth IS NULL THEN 'none'
                WHEN p_depth >= q.max_depth
                  OR q.pressure = 'full' AND p_depth::float8 / q.max_depth > :admission.CLEAR THEN 'full'
                WHEN p_depth::float8 / q.max_depth >= :admission.SOFT
                  OR q.pressure <> 'none' AND p_depth::float8 / q.max_depth > :admission.CLEAR THEN 'soft'
                ELSE 'none' END
$$;

-- Keeps the pressure on each queue that has a max_depth up to date [F4].
-- Callers: the store, with each promote. May call: worker. Plan: free. Lock: the rows of queues whose
-- pressure has changed, without waiting.
CREATE OR REPLACE FUNCTION windlass.note_pressure() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    q          windlass.queue;
    v_pressure text;
BEGIN
    FOR q IN SELECT * FROM windlass.queue x WHERE x.max_depth IS NOT NULL OR x.pressure <> 'none' LOOP
        v_pressure := windlass.pressure_now(q);
        -- Only if the row is unchanged: a producer may have found the queue full meanwhile.
        CONTINUE WHEN v_pressure = q.pressure;
        PERFORM FROM windlass.queue x WHERE x.name = q.name AND x.pressure = q.pressure
            FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            UPDATE windlass.queue x SET pressure = v_pressure WHERE x.name = q.name;
        END IF;
    END LOOP;
END $$;

-- Notes the pressure that an enqueue has seen on a queue, in a transaction of its own, unless it was changed
-- since: that a queue became full, or emptied, must not be lost between two promotes [F4]. Callers: the
-- store, after an enqueue that saw a change. May call: worker, producer. Plan: free. Lock: the queue's row,
-- without waiting: if it is locked, promote does it. A constraint that is broken would show the row to a
-- producer, so an unknown pressure changes nothing.
CREATE OR REPLACE FUNCTION windlass.change_pressure(p_queue text, p_was text, p_is text) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
    UPDATE windlass.queue q SET pressure = p_is
     WHERE q.name = (SELECT x.name FROM windlass.queue x WHERE x.name = p_queue FOR NO KEY UPDATE SKIP LOCKED)
       AND q.pressure = p_was AND p_is IN (:admission.Pressure) AND q.max_depth IS NOT NULL
$$;

-- The flow control of a queue: {"pressure": ...} as of its present depth [F4], and {"rate": ..., "why": ...}
-- where it is governed [F2].
-- Callers: the store's readings. May call: worker, reader. Plan: free. Lock: none.
-- Volatile, so that set_queue's own answer shows what it has just set.
CREATE OR REPLACE FUNCTION windlass.flow_of(q windlass.queue) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    v_flow jsonb := jsonb_build_object('pressure', 'none');
BEGIN
    IF q.max_depth IS NOT NULL THEN
        v_flow := jsonb_build_object('pressure', windlass.pressure_now(q));
    END IF;
    IF q.governor THEN
        v_flow := v_flow || jsonb_build_object(
            'rate', (SELECT b.rate FROM windlass.budget b WHERE b.name = 'queue:' || q.name),
            'why', (SELECT g.state ->> 'why' FROM windlass.governor g WHERE g.queue = q.name));
    END IF;
    RETURN v_flow;
END $$;
