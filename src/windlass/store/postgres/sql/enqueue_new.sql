-- Adds jobs of any queue that may run at once and whose keys are theirs, and answers with their ids and statuses, in order.
-- Callers: enqueue_mixed, which has checked them. Lock: those of offer.
-- p_ids: of those that have an id already; the others get their place in the lane for one, or draw one where they go aside. One
-- insert for all that go aside: a gate may stand before several queues, and its order, too, is that of the jobs.
CREATE OR REPLACE FUNCTION windlass.enqueue_new(
    p_ids bigint[], p_tasks text[], p_payloads text[], p_queues text[], p_priorities smallint[], p_options text[],
    OUT ids bigint[], OUT statuses text[])
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
           array_agg(x.fair ORDER BY x.i), array_agg(CASE WHEN x.aside THEN 'held' ELSE 'enqueued' END ORDER BY x.i)
      INTO ids, v_lanes, v_gates, v_fair, statuses
      FROM (SELECT w.i, w.lane, w.gate, w.fair, w.gate IS NOT NULL OR w.fair IS NOT NULL AS aside,
                   CASE WHEN w.id IS NULL AND (w.lane IS NULL OR w.gate IS NOT NULL OR w.fair IS NOT NULL)
                        THEN nextval('windlass.job_id') ELSE w.id END AS id
              FROM (SELECT u.i, u.id, l.lane,
                           CASE WHEN m.gated THEN windlass.first_gate(u.queue, u.task, u.options::json, u.task = ANY (v_limited)) END
                               AS gate,
                           CASE WHEN m.gated THEN u.options::json ->> 'fair_key' END AS fair
                      FROM unnest(p_ids, p_tasks, p_queues, p_priorities, p_options) WITH ORDINALITY
                        AS u (id, task, queue, priority, options, i)
                      JOIN (SELECT d.queue, d.priority, windlass.lane_for(d.queue, d.priority) AS lane
                              FROM (SELECT DISTINCT y.queue, y.priority FROM unnest(p_queues, p_priorities) AS y (queue, priority)) AS d
                            OFFSET 0) AS l ON l.queue = u.queue AND l.priority = u.priority
                     CROSS JOIN LATERAL (SELECT l.lane IS NOT NULL AND windlass.may_be_gated(u.task, u.options, v_limited) AS gated) AS m
                     ORDER BY u.i OFFSET 0) AS w) AS x;
    IF 'held' = ANY (statuses) THEN
        PERFORM windlass.stir_gates(ARRAY(SELECT DISTINCT u.gate FROM unnest(v_gates, statuses) AS u (gate, status)
                                           WHERE u.status = 'held'));
        INSERT INTO windlass.held (id, since, enqueued_at, queue, priority, gate, fair_key, task, payload, options)
        SELECT u.id, v_now, v_now, u.queue, u.priority, u.gate, CASE WHEN u.gate IS NULL THEN u.fair END, u.task, u.payload::json,
               u.options::json
          FROM unnest(ids, p_queues, p_priorities, v_gates, v_fair, p_tasks, p_payloads, p_options, statuses) WITH ORDINALITY
            AS u (id, queue, priority, gate, fair, task, payload, options, status, i)
         WHERE u.status = 'held' ORDER BY u.i;
    END IF;
    FOR g IN
        SELECT u.lane, count(*)::int AS n, array_agg(u.i::int) AS places, array_agg(u.id) AS ids, array_agg(u.task) AS tasks,
               array_agg(u.payload) AS payloads, array_agg(u.options) AS options, array_agg(u.queue) AS queues,
               array_agg(u.priority) AS priorities
          FROM unnest(ids, v_lanes, p_tasks, p_payloads, p_options, p_queues, p_priorities, statuses) WITH ORDINALITY
            AS u (id, lane, task, payload, options, queue, priority, status, i)
         WHERE u.status = 'enqueued' GROUP BY u.lane
    LOOP
        IF g.lane IS NULL THEN  -- the way over deferred, due now [rule 11]
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
