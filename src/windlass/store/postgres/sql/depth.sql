-- Counts per queue without scanning the logs [M1]. Callers: users, the store. Lock: none.
-- ready: by position, so O(lanes); running: from the claims of workers that are not settled, above their floor. OFFSET 0
-- is a fence [rule 8]: without it the planner may read every claim and join the workers to them.
CREATE OR REPLACE FUNCTION windlass.depth()
RETURNS TABLE (queue text, ready bigint, running bigint, scheduled bigint, retrying bigint, dead bigint, oldest timestamptz)
LANGUAGE plpgsql SECURITY DEFINER ROWS 20
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    RETURN QUERY
    WITH waiting AS (
        SELECT l.queue, sum(windlass.lane_depth(l.id)) AS n, min(windlass.lane_head(l.id, 100)) AS oldest
          FROM windlass.lane l GROUP BY l.queue),
    aside AS (SELECT h.queue, count(*) AS n, min(h.since) AS oldest FROM windlass.held h GROUP BY h.queue),
    busy AS (
        SELECT l.queue, sum(h.n) AS n
          FROM windlass.worker_life w
          JOIN windlass.worker_beat b ON b.id = w.id
         CROSS JOIN LATERAL (SELECT c.lane, windlass.size_of(windlass.unfinished(c.id, c.seqs)) AS n
                               FROM windlass.claim c
                              WHERE c.worker = w.id AND c.n > 0 AND c.worker <> 0 AND c.id >= b.floor OFFSET 0) AS h
          JOIN windlass.lane l ON l.id = h.lane
         WHERE NOT w.settled GROUP BY l.queue),
    later AS (
        SELECT d.queue, count(*) FILTER (WHERE NOT d.retrying) AS scheduled, count(*) FILTER (WHERE d.retrying) AS retrying
          FROM windlass.deferred d GROUP BY d.queue),
    gone AS (
        SELECT x.queue, count(*) AS n
          FROM (SELECT d.queue FROM windlass.dead d
                 UNION ALL
                SELECT p.queue FROM windlass.parent p WHERE p.state = 'dead') AS x GROUP BY x.queue)
    SELECT q.name, (coalesce(w.n, 0) + coalesce(a.n, 0))::bigint, coalesce(b.n, 0)::bigint, coalesce(s.scheduled, 0),
           coalesce(s.retrying, 0), coalesce(g.n, 0), least(w.oldest, a.oldest)
      FROM (SELECT name FROM windlass.queue UNION SELECT d.queue FROM windlass.deferred d) AS q
      LEFT JOIN waiting w ON w.queue = q.name
      LEFT JOIN aside a ON a.queue = q.name
      LEFT JOIN busy b ON b.queue = q.name
      LEFT JOIN later s ON s.queue = q.name
      LEFT JOIN gone g ON g.queue = q.name
     ORDER BY q.name COLLATE "C";
END $$;
