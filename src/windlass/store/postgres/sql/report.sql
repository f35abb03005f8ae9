-- Adds up how runs went, by queue, for the governor's next look [F2]. Of queues without a governor nothing is kept.
-- p_runs: {queue: {"succeeded": ..., "failed": ..., "throttled": ..., "times": {bucket: runs}}}. Callers: the store.
-- Lock: the governor's rows of those queues, in the order of their names, waited for 1 s at most: who holds one for
-- longer is an operator with an open set_queue, and no worker waits for that [S2].
CREATE OR REPLACE FUNCTION windlass.report(p_runs jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' SET jit = off AS $$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT q.name, u.value AS runs FROM jsonb_each(p_runs) AS u JOIN windlass.queue q ON q.name = u.key
              WHERE q.governor ORDER BY q.name COLLATE "C" LOOP
        INSERT INTO windlass.governor AS g (queue, succeeded, failed, throttled, times)
        VALUES (r.name, coalesce((r.runs ->> 'succeeded')::bigint, 0), coalesce((r.runs ->> 'failed')::bigint, 0),
                coalesce((r.runs ->> 'throttled')::bigint, 0), coalesce(r.runs -> 'times', '{}'))
        ON CONFLICT (queue) DO UPDATE
           SET succeeded = g.succeeded + excluded.succeeded, failed = g.failed + excluded.failed,
               throttled = g.throttled + excluded.throttled,
               times = (SELECT coalesce(jsonb_object_agg(t.key, t.runs), '{}')
                          FROM (SELECT x.key, sum(x.value::bigint) AS runs
                                  FROM (SELECT * FROM jsonb_each_text(g.times)
                                         UNION ALL
                                        SELECT * FROM jsonb_each_text(excluded.times)) AS x GROUP BY x.key) AS t);
    END LOOP;
END $$;
