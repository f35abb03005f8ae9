-- How many jobs of each task wait aside in a queue, of the p_most that have waited longest; `capped`: there are more.
-- Callers: task_depths. Lock: none.
CREATE OR REPLACE FUNCTION windlass.held_tasks(p_queue text, p_most int)
RETURNS TABLE (task text, n bigint, capped boolean)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    RETURN QUERY
    SELECT f.task, count(*) FILTER (WHERE f.i <= p_most), max(max(f.i)) OVER () > p_most
      FROM (SELECT h.task, row_number() OVER () AS i
              FROM (SELECT x.task FROM windlass.held x WHERE x.queue = p_queue ORDER BY x.since LIMIT p_most + 1) AS h) AS f
     GROUP BY f.task;
END $$;
