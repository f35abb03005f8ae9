-- Adds jobs of every kind and queue in one statement, and answers with their ids and statuses, in order (see Receipt) [E1], and by
-- queue with the pressure from before, where it is worth telling (see pressure_of). Each fares as enqueue_one has it; the queues
-- take all of them or none [F4] [F5].
-- Callers: the store and the adapters. Lock: those of line_up, which come first; then those of enqueue_one and offer.
-- Only a job whose key somebody has, or another of the call, that comes after others, or may be parked, must be looked at alone.
-- All others are added together: first those for later, whose order is that of their times; then, by stretches between the ones
-- that go alone, those for now, so that a lane keeps the order of the jobs.
CREATE OR REPLACE FUNCTION windlass.enqueue_mixed(
    p_tasks text[], p_payloads text[], p_queues text[], p_priorities smallint[], p_delays float8[], p_run_ats timestamptz[],
    p_options text[], p_on_conflicts text[], p_keys text[], p_automatic boolean[],
    OUT pressures text, OUT jobs bigint[], OUT statuses text[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    v_n      int := cardinality(p_payloads);
    v_now    timestamptz := windlass.now();
    v_unique text[];
    v_times  timestamptz[];
    v_ways   text[];  -- 'later', 'now' or 'alone'
    v_from   int := 1;
    s        record;
    e        record;
BEGIN
    PERFORM windlass.check_name('task', t) FROM (SELECT DISTINCT unnest(p_tasks) AS t) AS d;
    PERFORM windlass.check_name('queue', q) FROM (SELECT DISTINCT unnest(p_queues) AS q) AS d;
    PERFORM windlass.check_payload(p) FROM unnest(p_payloads) AS p
      WHERE p IS NULL OR octet_length(p) > 1048576 OR ascii(p) NOT IN (123, 91) OR position(E'\\u0000' IN p) > 0;
    SELECT array_agg(CASE WHEN u.o IS NOT NULL THEN windlass.check_options(u.o) END ORDER BY u.i) INTO p_options
      FROM unnest(p_options) WITH ORDINALITY AS u (o, i);
    SELECT array_agg(u.o::json ->> 'unique_key' ORDER BY u.i) INTO v_unique FROM unnest(p_options) WITH ORDINALITY AS u (o, i);
    PERFORM windlass.check_new(u.priority, u.delay, u.run_at, u.conflict, u.key, u.own)
       FROM unnest(p_priorities, p_delays, p_run_ats, p_on_conflicts, p_keys, v_unique) AS u (priority, delay, run_at, conflict, key, own);
    SELECT json_object_agg(x.queue, x.pressure::json) INTO pressures
      FROM (SELECT d.queue, windlass.pressure_of(d.queue) AS pressure
              FROM (SELECT DISTINCT unnest(p_queues) AS queue) AS d OFFSET 0) AS x
     WHERE x.pressure IS NOT NULL;
    PERFORM windlass.judge_call(p_queues, p_priorities, p_keys);
    IF num_nonnulls(VARIADIC p_keys) + num_nonnulls(VARIADIC v_unique) > 0 THEN
        PERFORM windlass.line_up(array_remove(p_keys, NULL), array_remove(v_unique, NULL));
    END IF;
    IF NOT EXISTS (SELECT FROM windlass.epoch_mark x WHERE x.place = 'windlass.epoch_mark'::regclass::oid::bigint) THEN
        PERFORM windlass.skip_ids();
    END IF;
    SELECT array_agg(w.at ORDER BY w.i), array_agg(w.way ORDER BY w.i),
           array_agg(CASE WHEN w.way = 'later' OR w.way = 'now' AND num_nonnulls(w.key, w.own) > 0
                          THEN nextval('windlass.job_id') END ORDER BY w.i)
      INTO v_times, v_ways, jobs
      FROM (SELECT u.i, u.key, u.own, t.at,
                   CASE WHEN u.options::json -> 'after' IS NOT NULL OR u.automatic AND u.own IS NOT NULL
                             OR u.key IS NOT NULL
                                AND (row_number() OVER (PARTITION BY u.key ORDER BY u.i) > 1
                                     OR NOT EXISTS (SELECT FROM windlass.idempotency x WHERE x.key = u.key AND x.job = 0 OFFSET 0))
                             OR u.own IS NOT NULL
                                AND (row_number() OVER (PARTITION BY u.own ORDER BY u.i) > 1
                                     OR NOT EXISTS (SELECT FROM windlass.unique_key x WHERE x.key = u.own AND x.job = 0 OFFSET 0))
                        THEN 'alone' WHEN t.at > v_now THEN 'later' ELSE 'now' END AS way
              FROM unnest(p_delays, p_run_ats, p_options, p_keys, v_unique, p_automatic) WITH ORDINALITY
                AS u (delay, run_at, options, key, own, automatic, i)
             CROSS JOIN LATERAL (SELECT coalesce(u.run_at, v_now + make_interval(secs => u.delay)) AS at) AS t
             ORDER BY u.i OFFSET 0) AS w;
    -- By place, each found by a probe of its own: to a planner that believes the table empty, one walk along it is as good.
    UPDATE windlass.idempotency x SET job = u.job, at = v_now
      FROM (SELECT u.job, y.place FROM unnest(p_keys, jobs) AS u (key, job)
             CROSS JOIN LATERAL (SELECT i.ctid AS place FROM windlass.idempotency i WHERE i.key = u.key AND i.job = 0 LIMIT 1) AS y
             WHERE u.job IS NOT NULL OFFSET 0) AS u
     WHERE x.ctid = u.place;
    UPDATE windlass.unique_key x SET job = u.job
      FROM (SELECT u.job, y.place FROM unnest(v_unique, jobs) AS u (key, job)
             CROSS JOIN LATERAL (SELECT i.ctid AS place FROM windlass.unique_key i WHERE i.key = u.key AND i.job = 0 LIMIT 1) AS y
             WHERE u.job IS NOT NULL OFFSET 0) AS u
     WHERE x.ctid = u.place;
    INSERT INTO windlass.deferred (id, run_at, enqueued_at, queue, priority, task, payload, options)
    SELECT u.job, u.at, v_now, u.queue, u.priority, u.task, u.payload::json, u.options::json
      FROM unnest(jobs, v_times, p_queues, p_priorities, p_tasks, p_payloads, p_options, v_ways)
        AS u (job, at, queue, priority, task, payload, options, way)
     WHERE u.way = 'later';
    statuses := array_fill('scheduled'::text, ARRAY[v_n]);
    FOR k IN 1..v_n + 1 LOOP
        CONTINUE WHEN v_ways[k] <> 'alone';
        IF 'now' = ANY (v_ways[v_from:k - 1]) THEN
            SELECT array_agg(u.i::int) AS places, array_agg(u.job) AS jobs, array_agg(u.task) AS tasks, array_agg(u.payload) AS payloads,
                   array_agg(u.queue) AS queues, array_agg(u.priority) AS priorities, array_agg(u.options) AS options
              INTO s
              FROM unnest(jobs[v_from:k - 1], p_tasks[v_from:k - 1], p_payloads[v_from:k - 1], p_queues[v_from:k - 1],
                          p_priorities[v_from:k - 1], p_options[v_from:k - 1], v_ways[v_from:k - 1]) WITH ORDINALITY
                AS u (job, task, payload, queue, priority, options, way, i)
             WHERE u.way = 'now';
            SELECT * INTO e FROM windlass.enqueue_new(s.jobs, s.tasks, s.payloads, s.queues, s.priorities, s.options);
            FOR m IN 1..cardinality(s.places) LOOP
                jobs[v_from + s.places[m] - 1] := e.ids[m];
                statuses[v_from + s.places[m] - 1] := e.statuses[m];
            END LOOP;
        END IF;
        IF k <= v_n THEN
            SELECT * INTO e
              FROM windlass.enqueue_one(p_tasks[k], p_payloads[k], p_queues[k], p_priorities[k], p_delays[k], p_run_ats[k], p_options[k],
                                        p_on_conflicts[k], p_keys[k], p_automatic[k], p_judge => false);
            jobs[k] := e.job;
            statuses[k] := e.status;
        END IF;
        v_from := k + 1;
    END LOOP;
END $$;
