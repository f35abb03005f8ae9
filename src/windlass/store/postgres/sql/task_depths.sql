-- How many jobs of each task are ready, by queue: those in lanes, up to p_most a lane, and those aside, up to p_most a queue
-- [M1]. `estimate`: there are more in that queue, of whatever task. Callers: users, the store; not on any job's path, and not cheap. Lock: none.
CREATE OR REPLACE FUNCTION windlass.task_depths(p_most int)
RETURNS TABLE (queue text, task text, ready bigint, estimate boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    RETURN QUERY
    SELECT x.queue, x.task, sum(x.n)::bigint, bool_or(bool_or(x.capped)) OVER (PARTITION BY x.queue)
      FROM (SELECT l.queue, t.* FROM windlass.lane l CROSS JOIN LATERAL windlass.lane_tasks(l.id, p_most) AS t
             UNION ALL
            SELECT q.name, t.* FROM windlass.queue q CROSS JOIN LATERAL windlass.held_tasks(q.name, p_most) AS t) AS x
     GROUP BY x.queue, x.task HAVING sum(x.n) > 0 ORDER BY x.queue COLLATE "C", x.task COLLATE "C";
END $$;
