-- What jobs died of: the newest p_limit dead ones (of a queue), by task and type of their last failure; of a task, those among
-- them. Callers: the store's causes. Lock: none. `groups` is JSON, the largest first.
-- The dead of one queue are written as a range, as in list_aside. Failures are read in whole only of the latest of each
-- group: tracebacks are most of a dead row.
CREATE OR REPLACE FUNCTION windlass.list_causes(
    p_queue text, p_task text, p_limit int, OUT groups json, OUT looked bigint, OUT more boolean)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    WITH newest AS MATERIALIZED (
        SELECT x.* FROM (
           (SELECT d.id, d.enqueued_at, d.died_at, d.task, coalesce(d.error, d.errors -> -1 ->> 'type', '') AS error, false AS parent
              FROM windlass.dead d WHERE p_queue IS NULL ORDER BY d.enqueued_at DESC, d.id + 0 DESC LIMIT p_limit + 1)
           UNION ALL
           (SELECT d.id, d.enqueued_at, d.died_at, d.task, coalesce(d.error, d.errors -> -1 ->> 'type', ''), false
              FROM windlass.dead d WHERE d.queue >= p_queue AND d.queue <= p_queue
             ORDER BY d.queue DESC, d.enqueued_at DESC, d.id + 0 DESC LIMIT p_limit + 1)
           UNION ALL
           (SELECT p.id, p.enqueued_at, p.finished_at, p.task, NULL, true
              FROM windlass.parent p WHERE p.state = 'dead' AND (p_queue IS NULL OR p.queue = p_queue)
             ORDER BY p.enqueued_at DESC, p.id + 0 DESC LIMIT p_limit + 1)) AS x
         ORDER BY x.enqueued_at DESC, x.id DESC LIMIT p_limit + 1),
    named AS (
        SELECT n.id, n.died_at, n.task, n.parent,
               CASE WHEN n.parent THEN coalesce((SELECT CASE WHEN f.attempt > 0 THEN f.type END FROM windlass.failure f
                                                  WHERE f.job = n.id ORDER BY f.at DESC LIMIT 1), '')
                    ELSE n.error END AS error
          FROM (SELECT * FROM newest ORDER BY enqueued_at DESC, id DESC LIMIT p_limit) AS n
         WHERE p_task IS NULL OR n.task = p_task),
    grouped AS (
        SELECT n.task, n.error, count(*) AS jobs, max(n.died_at) AS last_at,
               (array_agg(n.id ORDER BY n.died_at DESC, n.id DESC))[1] AS id
          FROM named n GROUP BY n.task, n.error)
    SELECT (SELECT coalesce(json_agg(json_build_object(
                       'task', g.task, 'error', g.error, 'jobs', g.jobs, 'last_at', date_part('epoch', g.last_at),
                       'message', coalesce(l.message, '')) ORDER BY g.jobs DESC, g.last_at DESC, g.task COLLATE "C",
                   g.error COLLATE "C"), '[]')
              FROM grouped g
              LEFT JOIN LATERAL (SELECT coalesce(windlass.failures_of(p.id) -> -1 ->> 'message', p.reason) AS message
                                   FROM windlass.parent p WHERE p.id = g.id AND p.state = 'dead'
                                  UNION ALL
                                 SELECT coalesce(d.errors -> -1 ->> 'message', d.reason) FROM windlass.dead d WHERE d.id = g.id
                                  LIMIT 1) AS l ON true),
           least(count(*), p_limit), count(*) > p_limit
      INTO groups, looked, more FROM newest;
END $$;
