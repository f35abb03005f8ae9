-- The queues that have a governor, each with what was reported since the last call, which is forgotten with this one, and what
-- its governor knew then [F2] [K3]. Callers: the store. Lock: the leader row FOR SHARE, then the governor's rows, by
-- trying only.
CREATE OR REPLACE FUNCTION windlass.governed(p_term bigint)
RETURNS TABLE (queue text, rate_min float8, rate_max float8, succeeded bigint, failed bigint, throttled bigint, times jsonb,
               waiting bigint, state jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    q windlass.queue;
BEGIN
    PERFORM windlass.check_term(p_term);
    FOR q IN SELECT * FROM windlass.queue x WHERE x.governor ORDER BY x.name COLLATE "C" LOOP
        INSERT INTO windlass.governor AS g (queue)
        SELECT q.name WHERE NOT EXISTS (SELECT FROM windlass.governor x WHERE x.queue = q.name) ON CONFLICT DO NOTHING;
        SELECT q.name, q.rate_min, q.rate_max, g.succeeded, g.failed, g.throttled, g.times, g.state
          INTO queue, rate_min, rate_max, succeeded, failed, throttled, times, state
          FROM windlass.governor g WHERE g.queue = q.name FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        UPDATE windlass.governor g SET succeeded = 0, failed = 0, throttled = 0, times = '{}'
         WHERE g.queue = q.name AND (g.succeeded, g.failed, g.throttled, g.times) <> (0, 0, 0, '{}');
        waiting := (SELECT l.depth FROM windlass.queue_load(q.name, 10000, false) AS l);
        RETURN NEXT;
    END LOOP;
END $$;
