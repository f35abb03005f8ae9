-- Judges a whole call by the load of its queues, once for each queue and priority, as they stand before
-- it [F4] [F5]. p_keys: the jobs' idempotency keys; a queue whose jobs were all seen before is not judged.
-- Callers: enqueue_mixed. Lock: none.
CREATE OR REPLACE FUNCTION windlass.judge_call(p_queues text[], p_priorities smallint[], p_keys text[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    SELECT windlass.judge_load(u.queue, u.priority, u.n)
      FROM (SELECT x.queue, x.priority, count(*)::int AS n, min(x.i) AS i
              FROM unnest(p_queues, p_priorities, p_keys) WITH ORDINALITY AS x (queue, priority, key, i)
             WHERE x.queue IN (SELECT y.queue FROM unnest(p_queues, p_keys) AS y (queue, key)
                                WHERE y.key IS NULL
                                   OR NOT EXISTS (SELECT FROM windlass.idempotency k, windlass.meta m
                                                   WHERE k.key = y.key
                                                     AND k.at > windlass.now()
                                                              - make_interval(secs => m.idempotency_retention)))
             GROUP BY x.queue, x.priority) AS u
     ORDER BY u.i
$$;
