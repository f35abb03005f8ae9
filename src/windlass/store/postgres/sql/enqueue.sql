-- Adding jobs: from SQL, many plain ones, and calls of every kind. One job that is more than plain, the
-- checks and the keys are in enqueue_keys.sql.

-- ==== From SQL ====

-- Adds one job, from psql, a trigger or any language, in the caller's own transaction [E1].
-- Callers: users. May call: worker, producer. Plan: free. Lock: those of enqueue_many or enqueue_one. Returns
-- the job's id. A transaction that is to be prepared must not notify: SET LOCAL windlass.notify = off before
-- it (see wake). after: ids of jobs that must have succeeded first; otherwise: dead, cancel or run, where one
-- ends in another way, or run_only: only where one does [P12]. ordering_key: one job of it at a time, in
-- order [F6]; concurrency_key: no more than key_limit of it at a time [F3]. expires: it ends as cancelled
-- where nobody has begun it after this time [E8]. needs: abilities of which a worker must have all [K14].
--   SELECT windlass.enqueue('mail.send', '{"to": "a@b.c"}', queue => 'mail', delay => '5 minutes');
CREATE OR REPLACE FUNCTION windlass.enqueue(
    task text, args json DEFAULT '{}', queue text DEFAULT 'default', priority text DEFAULT 'normal',
    delay interval DEFAULT NULL, run_at timestamptz DEFAULT NULL, max_attempts int DEFAULT NULL,
    timeout interval DEFAULT NULL, unique_key text DEFAULT NULL, on_conflict text DEFAULT 'skip',
    idempotency_key text DEFAULT NULL, fair_key text DEFAULT NULL, tags text[] DEFAULT NULL,
    headers json DEFAULT NULL, trace text DEFAULT NULL, after bigint[] DEFAULT NULL,
    otherwise text DEFAULT 'dead', ordering_key text DEFAULT NULL, concurrency_key text DEFAULT NULL,
    key_limit int DEFAULT 1, expires interval DEFAULT NULL, needs text[] DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_priority smallint := array_position(ARRAY[:states.PriorityName], priority) - 1;
    v_options  text;
BEGIN
    IF v_priority IS NULL THEN
        RAISE EXCEPTION 'unknown priority %', quote_nullable(priority) USING ERRCODE = 'WL005',
            HINT = 'Use urgent, high, normal or low.';
    ELSIF run_at NOT BETWEEN '1970-01-01' AND '2200-01-01' THEN
        RAISE EXCEPTION 'run_at % is out of range', run_at USING ERRCODE = 'WL005',
            HINT = 'Use a time between the years 1970 and 2200.';
    ELSIF delay NOT BETWEEN interval '0' AND interval '100 years' THEN
        RAISE EXCEPTION 'delay must be positive, and at most 100 years' USING ERRCODE = 'WL005';
    ELSIF on_conflict IS NULL OR on_conflict NOT IN (:fields.OnConflict) THEN
        RAISE EXCEPTION 'on_conflict must be skip, replace or reject' USING ERRCODE = 'WL005';
    ELSIF otherwise = 'run_only' AND coalesce(after, '{}') = '{}' THEN
        RAISE EXCEPTION 'otherwise run_only is for a job that comes after others' USING ERRCODE = 'WL005',
            HINT = 'Name some in after.';
    END IF;
    v_options := nullif(json_strip_nulls(json_build_object(
        'max_attempts', max_attempts, 'timeout', date_part('epoch', timeout), 'unique_key', unique_key,
        'fair_key', fair_key, 'tags', tags, 'headers', headers, 'trace', trace, 'after', nullif(after, '{}'),
        'otherwise', nullif(otherwise, 'dead'), 'ordering_key', ordering_key, 'concurrency_key',
        concurrency_key, 'key_limit', nullif(key_limit, 1), 'expires', date_part('epoch', expires),
        'needs', nullif(array_to_string(needs, ','), '')))::text,
        '{}');
    IF delay IS NULL AND run_at IS NULL AND unique_key IS NULL AND idempotency_key IS NULL
       AND coalesce(after, '{}') = '{}' THEN
        RETURN (windlass.enqueue_many(queue, v_priority, ARRAY[task], ARRAY[args::text],
                                      ARRAY[v_options]))[1];
    END IF;
    RETURN (SELECT e.job FROM windlass.enqueue_one(task, args::text, queue, v_priority,
                                                   date_part('epoch', delay), run_at,
                                                   v_options, on_conflict, idempotency_key) AS e);
END $$;

-- ==== Plain jobs ====

-- Adds plain jobs to one queue and priority, and returns their ids in order [E1].
-- Callers: enqueue, the store and every producer adapter. May call: worker, producer. Plan: free. Lock: those
-- of offer. p_judge: see enqueue_one. p_own: the call is a transaction of the store's own, so that jobs may
-- take a pass right here (see enqueue_straight). Plain: no delay, no key that must be looked up. Those with a
-- gate or a fair key on their way go aside, the others into their lane, if there is one: see enqueue_aside.
CREATE OR REPLACE FUNCTION windlass.enqueue_many(
    p_queue text, p_priority smallint, p_tasks text[], p_payloads text[], p_options text[] DEFAULT NULL,
    p_judge boolean DEFAULT true, p_own boolean DEFAULT false)
RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_n       int := cardinality(p_payloads);
    v_lane    int;
    v_ids     bigint[];
    v_limited text[];
    v_expires boolean;
    v_gated   boolean := false;
    v_abilities text := '';
    v_others  text := '';
BEGIN
    IF v_n IS NULL OR v_n = 0 THEN
        RETURN '{}';
    END IF;
    IF p_priority IS NULL OR p_priority NOT BETWEEN 0 AND 3 THEN
        RAISE EXCEPTION 'priority must be urgent, high, normal or low' USING ERRCODE = 'WL005';
    ELSIF coalesce(cardinality(p_tasks), 0) NOT IN (1, v_n) OR cardinality(p_options) <> v_n THEN
        RAISE EXCEPTION 'there are % payloads, % tasks and % options', v_n, coalesce(cardinality(p_tasks), 0),
            coalesce(cardinality(p_options), 0) USING ERRCODE = 'WL005',
            HINT = 'Give one task for all or one for each payload, and options for none or for each.';
    END IF;
    IF p_options IS NOT NULL THEN
        -- Many jobs of one call have the same options: each kind is checked once.
        SELECT array_agg(c.checked ORDER BY u.i), bool_or(c.expires), min(coalesce(c.abilities, '')),
               max(coalesce(c.abilities, ''))
          INTO p_options, v_expires, v_abilities, v_others
          FROM unnest(p_options) WITH ORDINALITY AS u (o, i)
          LEFT JOIN (SELECT y.o, y.expires,
                            CASE WHEN y.needs THEN windlass.abilities_of(y.checked::json) END AS abilities,
                            CASE WHEN y.expires THEN windlass.with_deadline(y.checked, windlass.now())
                                 ELSE y.checked END AS checked
                       FROM (SELECT d.o, windlass.check_options(d.o) AS checked,
                                    d.o LIKE '%"expires"%' AS expires, d.o LIKE '%"needs"%' AS needs
                               FROM (SELECT DISTINCT x.o FROM unnest(p_options) AS x (o)
                                      WHERE x.o IS NOT NULL) AS d
                             OFFSET 0) AS y OFFSET 0) AS c
            ON c.o = u.o;
        IF v_abilities <> v_others THEN
            RAISE EXCEPTION 'jobs of one call need different abilities' USING ERRCODE = 'WL005',
                HINT = 'Each lane has jobs that need the same of a worker: make a call for each.';
        END IF;
    END IF;
    IF cardinality(p_tasks) = 1 THEN
        PERFORM windlass.check_name('task', p_tasks[1]);
    ELSE
        PERFORM windlass.check_name('task', t) FROM (SELECT DISTINCT unnest(p_tasks) AS t) AS d;
    END IF;
    PERFORM windlass.check_payload(p) FROM unnest(p_payloads) AS p
      WHERE p IS NULL OR octet_length(p) > :fields.MAX_BYTES OR ascii(p) NOT IN (123, 91)
         OR position(E'\\u0000' IN p) > 0;
    IF p_judge THEN
        PERFORM windlass.check_load(p_queue, p_priority, v_n);
    END IF;
    v_lane := windlass.lane_for(p_queue, p_priority, v_abilities);
    v_limited := windlass.limited_tasks(p_tasks);
    -- Not in one condition: the look at each job would be run for all calls.
    IF v_lane IS NOT NULL AND (v_limited <> '{}' OR p_options IS NOT NULL) THEN
        v_gated := EXISTS (SELECT FROM unnest(p_tasks, p_payloads, p_options) AS u (task, payload, options)
                            WHERE windlass.may_be_gated(coalesce(u.task, p_tasks[1]), u.options, v_limited));
    END IF;
    IF v_gated OR v_lane IS NULL THEN
        v_ids := windlass.enqueue_aside(p_queue, p_priority, v_lane, p_tasks, p_payloads, p_options,
                                        v_limited, p_own);
    ELSIF v_n = 1 THEN
        v_ids := ARRAY[v_lane::bigint << 44
                       | (windlass.offer(v_lane, v_n, p_tasks, p_payloads, p_options))[1]];
    ELSE
        SELECT array_agg(v_lane::bigint << 44 | s) INTO v_ids
          FROM unnest(windlass.offer(v_lane, v_n, p_tasks, p_payloads, p_options)) AS s;
    END IF;
    IF v_expires THEN
        PERFORM windlass.note_deadlines(v_ids, p_options);
    END IF;
    RETURN v_ids;
END $$;

-- Adds jobs of which some go aside: who has to pass a gate joins its waiting list, whether or not there is a
-- lane yet, since the order of a key is that of commits [F6]; who waits for the turn of its fair key joins
-- the ring of its lane. The others go into that lane. A queue without one takes the way over deferred, due
-- now [rule 11], and so does a queue on a server that was not adopted yet [S3]. Returns their ids, in order.
-- Callers: enqueue_many, which has checked them. May call: worker. Plan: the caller's. Lock: those of offer;
-- those of enqueue_straight, where p_own: no producer waits for another's gate.
CREATE OR REPLACE FUNCTION windlass.enqueue_aside(
    p_queue text, p_priority smallint, p_lane int, p_tasks text[], p_payloads text[], p_options text[],
    p_limited text[], p_own boolean)
RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    v_now   timestamptz := windlass.now();
    v_gates text[];
    v_aside boolean[];
    v_in    boolean[];  -- those that are let through their gate right here
    v_ids   bigint[];
    v_seqs  bigint[];
BEGIN
    IF p_lane IS NULL THEN
        PERFORM windlass.check_name('queue', p_queue);
        IF NOT EXISTS (SELECT FROM windlass.epoch_mark e
                        WHERE e.place = 'windlass.epoch_mark'::regclass::oid::bigint) THEN
            PERFORM windlass.skip_ids();
        END IF;
    END IF;
    SELECT array_agg(x.gate ORDER BY x.i),
           array_agg(x.gate IS NOT NULL OR x.fair IS NOT NULL AND p_lane IS NOT NULL ORDER BY x.i)
      INTO v_gates, v_aside
      FROM (SELECT u.i, u.options ->> 'fair_key' AS fair,
                   windlass.first_gate(p_queue, u.task, u.options, u.task = ANY (p_limited)) AS gate
              FROM (SELECT coalesce(y.task, p_tasks[1]) AS task, y.options::json AS options, y.i
                      FROM unnest(p_tasks, p_payloads, p_options) WITH ORDINALITY AS y (task, payload,
                              options, i)
                    OFFSET 0) AS u) AS x;
    IF p_own AND p_lane IS NOT NULL THEN
        v_in := windlass.enqueue_straight((SELECT windlass.place_of(l.queue, l.abilities)
                                             FROM windlass.lane l WHERE l.id = p_lane),
                                          p_tasks, p_options, v_gates, p_limited);
        v_aside := ARRAY(SELECT u.aside AND NOT u.let
                           FROM unnest(v_aside, v_in) WITH ORDINALITY AS u (aside, let, i) ORDER BY u.i);
    END IF;
    IF true = ANY (v_aside) THEN
        PERFORM windlass.mark_gates_changed(ARRAY(SELECT DISTINCT u.gate
                                            FROM unnest(v_gates, v_aside) AS u (gate, aside) WHERE u.aside));
    END IF;
    IF p_lane IS NOT NULL AND false = ANY (v_aside) THEN
        SELECT windlass.offer(p_lane, count(*)::int, array_agg(coalesce(u.task, p_tasks[1]) ORDER BY u.i),
                              array_agg(u.payload ORDER BY u.i), array_agg(u.options ORDER BY u.i))
                                  INTO v_seqs
          FROM unnest(p_tasks, p_payloads, p_options, v_aside) WITH ORDINALITY AS u (task, payload, options,
                  aside, i)
         WHERE NOT u.aside;
    END IF;
    SELECT array_agg(CASE WHEN p.aside OR p_lane IS NULL THEN nextval('windlass.job_id')
                     ELSE p_lane::bigint << 44 | v_seqs[p.place] END ORDER BY p.i)
      INTO v_ids
      FROM (SELECT u.i, u.aside, count(*) FILTER (WHERE NOT u.aside) OVER (ORDER BY u.i) AS place
              FROM unnest(v_aside) WITH ORDINALITY AS u (aside, i) ORDER BY u.i) AS p;
    -- The turns of a call of the store's own, drawn here, are those of the commit, which is next: see
    -- draw_turn.
    PERFORM set_config('windlass.keeps_turn', CASE WHEN p_own THEN 'on' ELSE '' END, true);
    INSERT INTO windlass.held (id, since, enqueued_at, queue, priority, gate, fair_key,
                               task, payload, options)
    SELECT u.id, v_now, v_now, p_queue, p_priority, u.gate,
           CASE WHEN u.gate IS NULL THEN u.options::json ->> 'fair_key' END, coalesce(u.task, p_tasks[1]),
                     u.payload::json,
           u.options::json
      FROM unnest(v_ids, p_tasks, p_payloads, p_options, v_gates, v_aside) WITH ORDINALITY
        AS u (id, task, payload, options, gate, aside, i)
     WHERE u.aside ORDER BY u.i;
    PERFORM set_config('windlass.keeps_turn', '', true);
    IF true = ANY (v_in) THEN
        INSERT INTO windlass.pass (gate, job, need, turn, enqueued_at, at)
        SELECT u.gate, u.id, 1, nextval('windlass.held_turn'), v_now, v_now
          FROM unnest(v_ids, v_gates, v_in) AS u (id, gate, let) WHERE u.let;
    END IF;
    IF p_lane IS NULL AND false = ANY (v_aside) THEN
        INSERT INTO windlass.deferred (id, run_at, enqueued_at, queue, priority, task, payload, options)
        SELECT u.id, v_now, v_now, p_queue, p_priority, coalesce(u.task, p_tasks[1]), u.payload::json,
               u.options::json
          FROM unnest(v_ids, p_tasks, p_payloads, p_options, v_aside) AS u (id, task, payload, options, aside)
         WHERE NOT u.aside;
    END IF;
    RETURN v_ids;
END $$;

-- Which of some new jobs may go straight to their lane, since the gate that they must pass has room and
-- nobody waits there [F3]: by place. They have one gate only, of a concurrency key or of their task; the
-- order of an ordering key is that of commits, which nobody knows yet [F6].
-- Callers: enqueue_aside, which gives them their passes, in a transaction that commits right after. May
-- call: worker. Plan: pinned. Lock: the gates, up to 500, without waiting, as in admit_through.
CREATE OR REPLACE FUNCTION windlass.enqueue_straight(
    p_place text, p_tasks text[], p_options text[], p_gates text[], p_limited text[]) RETURNS boolean[]
LANGUAGE plpgsql AS $$
DECLARE
    v_space int := ('windlass.held'::regclass::oid::bigint - 2147483648)::int;
    v_gate  text;
    v_open  text[] := '{}';
BEGIN
    IF current_setting('transaction_isolation') = 'read committed'
       AND p_place <> ALL (windlass.unserved_places()) THEN
        FOR v_gate IN SELECT g COLLATE "C" AS gate FROM (SELECT DISTINCT x FROM unnest(p_gates) AS x) AS u (g)
                       WHERE (g LIKE 'key:%' OR g LIKE 'task:%'
                              AND substr(g, 6) NOT IN (SELECT c.task FROM windlass.uncounted_task c))
                         AND NOT EXISTS (SELECT FROM windlass.list_from(g) AS s CROSS JOIN windlass.held h
                                          WHERE h.gate = g AND h.turn >= s.turn OFFSET 0)
                       ORDER BY 1 LIMIT 500 LOOP
            IF pg_try_advisory_xact_lock(v_space, hashtext(v_gate)) THEN
                v_open := v_open || v_gate;
            END IF;
        END LOOP;
    END IF;
    -- Only now, after the locks, is it looked who waits there and who has passed.
    RETURN (
        SELECT array_agg(coalesce(g.taken + j.no <= j.most, false) ORDER BY j.i)
          FROM (SELECT u.i, u.gate, row_number() OVER (PARTITION BY u.gate ORDER BY u.i) AS no,
                       CASE WHEN u.options ->> 'fair_key' IS NOT NULL THEN NULL
                            WHEN u.gate LIKE 'task:%'
                            THEN windlass.limit_of('task', u.options, t.concurrency, t.key_concurrency)
                            WHEN u.task <> ALL (p_limited) AND u.options ->> 'task_limit' IS NULL
                            THEN windlass.limit_of('key', u.options, t.concurrency, t.key_concurrency)
                       END AS most
                  FROM (SELECT x.i, x.gate, coalesce(x.task, p_tasks[1]) AS task, x.options::json AS options
                          FROM unnest(p_gates, p_tasks, p_options) WITH ORDINALITY
                            AS x (gate, task, options, i)) AS u
                  LEFT JOIN windlass.task_setting t ON t.name = u.task) AS j
          LEFT JOIN (SELECT o AS gate, p.taken
                       FROM unnest(v_open) AS o CROSS JOIN LATERAL windlass.gate_places(o) AS p
                      WHERE NOT EXISTS (SELECT FROM windlass.list_from(o) AS s CROSS JOIN windlass.held h
                                         WHERE h.gate = o AND h.turn >= s.turn OFFSET 0)
                        AND NOT EXISTS (SELECT FROM windlass.uncounted_task c WHERE 'task:' || c.task = o)
                     OFFSET 0) AS g ON g.gate = j.gate);
END $$;

-- What became of jobs that enqueue_many has just added, in order (see Receipt): 'enqueued', or 'held' at a
-- gate or for a turn.
-- Callers: the store and the adapters, in the statement that adds them, where one has no place in its lane.
-- May call: worker, producer. Plan: pinned. Lock: none. The id of a job in a lane has the lane in its upper
-- bits. The others are held, but where there was no lane: then some may wait in deferred for it.
CREATE OR REPLACE FUNCTION windlass.statuses_of(p_ids bigint[]) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_some boolean;
BEGIN
    SELECT EXISTS (SELECT FROM windlass.deferred d WHERE d.id BETWEEN x.low AND x.high) INTO v_some
      FROM (SELECT min(u.id) AS low, max(u.id) AS high FROM unnest(p_ids) AS u (id)
             WHERE u.id >> 44 = 0) AS x;
    RETURN ARRAY(SELECT CASE WHEN u.id >> 44 > 0
                               OR v_some AND NOT EXISTS (SELECT FROM windlass.held h
                                                          WHERE h.id = u.id OFFSET 0)
                        THEN 'enqueued' ELSE 'held' END
                   FROM unnest(p_ids) WITH ORDINALITY AS u (id, i) ORDER BY u.i);
END $$;

-- ==== Jobs of every kind ====

-- Adds jobs of every kind and queue in one statement. Returns their ids and statuses, in order (see Receipt)
-- [E1], and by queue the pressure before the call, where it matters (see pressure_of). Each job is treated as
-- by enqueue_one; the queues take all of them or none [F4] [F5].
-- Callers: the store and the adapters. May call: worker, producer. Plan: pinned, nested. Lock: those of
-- lock_keys, which come first; then those of enqueue_one and offer. Only a job whose key somebody has, or
-- another of the call, or that may be parked, must be looked at alone. All others are added together: first
-- those for later, whose order is that of their times, and those that come after others; then, by stretches
-- between the ones that go alone, those for now, so that a lane keeps the order of the jobs.
CREATE OR REPLACE FUNCTION windlass.enqueue_mixed(
    p_tasks text[], p_payloads text[], p_queues text[], p_priorities smallint[], p_delays float8[],
    p_run_ats timestamptz[], p_options text[], p_on_conflicts text[], p_keys text[], p_automatic boolean[],
    OUT pressures text, OUT jobs bigint[], OUT statuses text[])
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_n      int := cardinality(p_payloads);
    v_now    timestamptz := windlass.now();
    v_unique text[];
    v_times  timestamptz[];
    v_ways   text[];  -- 'after', 'later', 'now' or 'alone'
    a        record;  -- what jobs wait for: see waits_of
    v_from   int := 1;
    v_expires boolean;
    s        record;
    e        record;
BEGIN
    PERFORM windlass.check_name('task', t) FROM (SELECT DISTINCT unnest(p_tasks) AS t) AS d;
    PERFORM windlass.check_name('queue', q) FROM (SELECT DISTINCT unnest(p_queues) AS q) AS d;
    PERFORM windlass.check_payload(p) FROM unnest(p_payloads) AS p
      WHERE p IS NULL OR octet_length(p) > :fields.MAX_BYTES OR ascii(p) NOT IN (123, 91)
         OR position(E'\\u0000' IN p) > 0;
    SELECT array_agg(CASE WHEN u.o IS NOT NULL THEN windlass.check_options(u.o) END ORDER BY u.i),
           bool_or(u.o LIKE '%"expires"%')
      INTO p_options, v_expires
      FROM unnest(p_options) WITH ORDINALITY AS u (o, i);
    SELECT array_agg(u.o::json ->> 'unique_key' ORDER BY u.i) INTO v_unique
      FROM unnest(p_options) WITH ORDINALITY AS u (o, i);
    PERFORM windlass.check_new(u.priority, u.delay, u.run_at, u.conflict, u.key, u.own)
       FROM unnest(p_priorities, p_delays, p_run_ats, p_on_conflicts, p_keys, v_unique) AS u (priority, delay,
               run_at, conflict, key, own);
    SELECT json_object_agg(x.queue, x.pressure::json) INTO pressures
      FROM (SELECT d.queue, windlass.pressure_of(d.queue) AS pressure
              FROM (SELECT DISTINCT unnest(p_queues) AS queue) AS d OFFSET 0) AS x
     WHERE x.pressure IS NOT NULL;
    PERFORM windlass.check_call_load(p_queues, p_priorities, p_keys);
    IF num_nonnulls(VARIADIC p_keys) + num_nonnulls(VARIADIC v_unique) > 0 THEN
        PERFORM windlass.lock_keys(array_remove(p_keys, NULL), array_remove(v_unique, NULL));
    END IF;
    IF NOT EXISTS (SELECT FROM windlass.epoch_mark x
                    WHERE x.place = 'windlass.epoch_mark'::regclass::oid::bigint) THEN
        PERFORM windlass.skip_ids();
    END IF;
    SELECT * INTO a FROM windlass.waits_of(p_options, p_keys);
    SELECT array_agg(w.at ORDER BY w.i), array_agg(w.way ORDER BY w.i),
           array_agg(CASE WHEN w.way IN ('after', 'later') OR w.way = 'now' AND num_nonnulls(w.key, w.own) > 0
                          THEN nextval('windlass.job_id') END ORDER BY w.i)
      INTO v_times, v_ways, jobs
      FROM (SELECT u.i, u.key, u.own, t.at,
                   CASE WHEN u.automatic AND u.own IS NOT NULL
                             OR u.key IS NOT NULL
                                AND (row_number() OVER (PARTITION BY u.key ORDER BY u.i) > 1
                                     OR NOT EXISTS (SELECT FROM windlass.idempotency x
                                                     WHERE x.key = u.key AND x.job = 0 OFFSET 0))
                             OR u.own IS NOT NULL
                                AND (row_number() OVER (PARTITION BY u.own ORDER BY u.i) > 1
                                     OR NOT EXISTS (SELECT FROM windlass.unique_key x
                                                     WHERE x.key = u.own AND x.job = 0 OFFSET 0))
                             OR u.options LIKE '%"group_end"%'
                        THEN 'alone' WHEN u.waits THEN 'after'
                        WHEN t.at > v_now THEN 'later' ELSE 'now' END AS way
              FROM unnest(p_delays, p_run_ats, p_keys, v_unique, p_automatic, p_options,
                          a.waits) WITH ORDINALITY
                AS u (delay, run_at, key, own, automatic, options, waits, i)
             CROSS JOIN LATERAL (SELECT coalesce(u.run_at, v_now + make_interval(secs => u.delay)) AS at) AS t
             ORDER BY u.i OFFSET 0) AS w;
    IF v_expires THEN
        SELECT array_agg(windlass.with_deadline(u.o, greatest(u.at, v_now)) ORDER BY u.i) INTO p_options
          FROM unnest(p_options, v_times) WITH ORDINALITY AS u (o, at, i);
    END IF;
    -- By place, each found by a probe of its own: a planner that believes the table empty would scan all of
    -- it.
    UPDATE windlass.idempotency x SET job = u.job, at = v_now
      FROM (SELECT u.job, y.place FROM unnest(p_keys, jobs) AS u (key, job)
             CROSS JOIN LATERAL (SELECT i.ctid AS place FROM windlass.idempotency i
                                  WHERE i.key = u.key AND i.job = 0 LIMIT 1) AS y
             WHERE u.job IS NOT NULL OFFSET 0) AS u
     WHERE x.ctid = u.place;
    UPDATE windlass.unique_key x SET job = u.job
      FROM (SELECT u.job, y.place FROM unnest(v_unique, jobs) AS u (key, job)
             CROSS JOIN LATERAL (SELECT i.ctid AS place FROM windlass.unique_key i
                                  WHERE i.key = u.key AND i.job = 0 LIMIT 1) AS y
             WHERE u.job IS NOT NULL OFFSET 0) AS u
     WHERE x.ctid = u.place;
    INSERT INTO windlass.deferred (id, run_at, not_before, enqueued_at, queue, priority, task, payload,
                                   options)
    SELECT u.job, CASE u.way WHEN 'after' THEN 'infinity' ELSE u.at END,
           CASE u.way WHEN 'after' THEN u.at END, v_now, u.queue, u.priority, u.task, u.payload::json,
           u.options::json
      FROM unnest(jobs, v_times, p_queues, p_priorities, p_tasks, p_payloads, p_options, v_ways)
        AS u (job, at, queue, priority, task, payload, options, way)
     WHERE u.way IN ('after', 'later');
    IF a.places IS NOT NULL THEN
        PERFORM windlass.add_edges(a.places, a.on_jobs, a.states, jobs, v_ways);
    END IF;
    statuses := array_fill('scheduled'::text, ARRAY[v_n]);
    FOR k IN 1..v_n + 1 LOOP
        CONTINUE WHEN v_ways[k] <> 'alone';
        IF 'now' = ANY (v_ways[v_from:k - 1]) THEN
            SELECT array_agg(u.i::int) AS places, array_agg(u.job) AS jobs, array_agg(u.task) AS tasks,
                   array_agg(u.payload) AS payloads, array_agg(u.queue) AS queues,
                   array_agg(u.priority) AS priorities, array_agg(u.options) AS options
              INTO s
              FROM unnest(jobs[v_from:k - 1], p_tasks[v_from:k - 1], p_payloads[v_from:k - 1],
                          p_queues[v_from:k - 1], p_priorities[v_from:k - 1], p_options[v_from:k - 1],
                          v_ways[v_from:k - 1]) WITH ORDINALITY
                AS u (job, task, payload, queue, priority, options, way, i)
             WHERE u.way = 'now';
            SELECT * INTO e FROM windlass.enqueue_new(s.jobs, s.tasks, s.payloads, s.queues, s.priorities,
                                                      s.options);
            FOR m IN 1..cardinality(s.places) LOOP
                jobs[v_from + s.places[m] - 1] := e.ids[m];
                statuses[v_from + s.places[m] - 1] := e.statuses[m];
            END LOOP;
        END IF;
        IF k <= v_n THEN
            SELECT * INTO e
              FROM windlass.enqueue_one(p_tasks[k], p_payloads[k], p_queues[k], p_priorities[k], p_delays[k],
                                        p_run_ats[k], p_options[k], p_on_conflicts[k], p_keys[k],
                                        p_automatic[k], p_judge => false);
            jobs[k] := e.job;
            statuses[k] := e.status;
        END IF;
        v_from := k + 1;
    END LOOP;
    IF v_expires THEN
        PERFORM windlass.note_deadlines(array_agg(u.job), array_agg(u.o))
           FROM unnest(jobs, p_options, v_ways) AS u (job, o, way) WHERE u.way <> 'alone';
    END IF;
END $$;

-- Adds jobs of any queue that may run at once and whose keys have been taken for them. Returns their ids and
-- statuses, in order.
-- Callers: enqueue_mixed, which has checked them. May call: worker. Plan: the caller's. Lock: those of offer.
-- p_ids: of those that have an id already; the others get their place in the lane for one, or draw one where
-- they go aside. One insert for all that go aside: a gate may stand before several queues, and its order,
-- too, is that of the jobs.
CREATE OR REPLACE FUNCTION windlass.enqueue_new(
    p_ids bigint[], p_tasks text[], p_payloads text[], p_queues text[], p_priorities smallint[],
    p_options text[], OUT ids bigint[], OUT statuses text[])
LANGUAGE plpgsql AS $$
DECLARE
    v_now     timestamptz := windlass.now();
    v_limited text[] := windlass.limited_tasks(NULL);
    v_lanes   int[];
    v_gates   text[];
    v_fair    text[];
    v_seqs    bigint[];
    g         record;
BEGIN
    SELECT array_agg(x.id ORDER BY x.i), array_agg(x.lane ORDER BY x.i), array_agg(x.gate ORDER BY x.i),
           array_agg(x.fair ORDER BY x.i), array_agg(CASE WHEN x.aside THEN 'held' ELSE 'enqueued' END
                                                     ORDER BY x.i)
      INTO ids, v_lanes, v_gates, v_fair, statuses
      FROM (SELECT w.i, w.lane, w.gate, w.fair, w.gate IS NOT NULL OR w.fair IS NOT NULL AS aside,
                   CASE WHEN w.id IS NULL AND (w.lane IS NULL OR w.gate IS NOT NULL OR w.fair IS NOT NULL)
                        THEN nextval('windlass.job_id') ELSE w.id END AS id
              FROM (SELECT u.i, u.id, l.lane,
                           CASE WHEN m.gated THEN windlass.first_gate(u.queue, u.task, u.options::json,
                                                                      u.task = ANY (v_limited)) END
                               AS gate,
                           CASE WHEN m.gated AND l.lane IS NOT NULL
                                THEN u.options::json ->> 'fair_key' END AS fair
                      FROM unnest(p_ids, p_tasks, p_queues, p_priorities, p_options) WITH ORDINALITY
                        AS u (id, task, queue, priority, options, i)
                      JOIN (SELECT d.queue, d.priority, d.abilities,
                                   windlass.lane_for(d.queue, d.priority, d.abilities) AS lane
                              FROM (SELECT DISTINCT y.queue, y.priority,
                                           windlass.abilities_of(y.options::json) AS abilities
                                      FROM unnest(p_queues, p_priorities, p_options)
                                        AS y (queue, priority, options)) AS d
                            OFFSET 0) AS l
                        ON l.queue = u.queue AND l.priority = u.priority
                       AND l.abilities = windlass.abilities_of(u.options::json)
                     CROSS JOIN LATERAL (SELECT windlass.may_be_gated(u.task, u.options,
                                                                      v_limited) AS gated) AS m
                     ORDER BY u.i OFFSET 0) AS w) AS x;
    IF 'held' = ANY (statuses) THEN
        PERFORM windlass.mark_gates_changed(ARRAY(SELECT DISTINCT u.gate
                                            FROM unnest(v_gates, statuses) AS u (gate, status)
                                           WHERE u.status = 'held'));
        INSERT INTO windlass.held (id, since, enqueued_at, queue, priority, gate, fair_key,
                                   task, payload, options)
        SELECT u.id, v_now, v_now, u.queue, u.priority, u.gate, CASE WHEN u.gate IS NULL THEN u.fair END,
                u.task, u.payload::json,
               u.options::json
          FROM unnest(ids, p_queues, p_priorities, v_gates, v_fair, p_tasks, p_payloads, p_options,
                      statuses) WITH ORDINALITY
            AS u (id, queue, priority, gate, fair, task, payload, options, status, i)
         WHERE u.status = 'held' ORDER BY u.i;
    END IF;
    FOR g IN
        SELECT u.lane, count(*)::int AS n, array_agg(u.i::int) AS places, array_agg(u.id) AS ids,
               array_agg(u.task) AS tasks, array_agg(u.payload) AS payloads, array_agg(u.options) AS options,
               array_agg(u.queue) AS queues, array_agg(u.priority) AS priorities
          FROM unnest(ids, v_lanes, p_tasks, p_payloads, p_options, p_queues, p_priorities,
                      statuses) WITH ORDINALITY
            AS u (id, lane, task, payload, options, queue, priority, status, i)
         WHERE u.status = 'enqueued' GROUP BY u.lane
    LOOP
        IF g.lane IS NULL THEN  -- the way over deferred, as in enqueue_aside
            INSERT INTO windlass.deferred (id, run_at, enqueued_at, queue, priority, task, payload, options)
            SELECT u.id, v_now, v_now, u.queue, u.priority, u.task, u.payload::json, u.options::json
              FROM unnest(g.ids, g.queues, g.priorities, g.tasks, g.payloads, g.options)
                AS u (id, queue, priority, task, payload, options);
            CONTINUE;
        END IF;
        v_seqs := windlass.offer(g.lane, g.n, g.tasks, g.payloads, g.options, g.ids);
        FOR k IN 1..g.n LOOP
            ids[g.places[k]] := coalesce(g.ids[k], g.lane::bigint << 44 | v_seqs[k]);
        END LOOP;
    END LOOP;
END $$;
