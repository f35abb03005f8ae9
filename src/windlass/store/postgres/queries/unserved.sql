-- Queues with jobs that are ready, or due, and no worker that is alive to run them. Of those that are due 10,000 are counted, the
-- ones due longest. Callers: diagnosis. Lock: none.
SELECT d.queue, d.ready + coalesce(due.n, 0) AS waiting
  FROM windlass.depth() AS d
  LEFT JOIN (SELECT x.queue, count(*) AS n
               FROM (SELECT y.queue FROM windlass.deferred y WHERE y.run_at <= windlass.now() ORDER BY y.run_at LIMIT 10000) AS x
              GROUP BY x.queue) AS due ON due.queue = d.queue
 WHERE d.ready + coalesce(due.n, 0) > 0
   AND NOT EXISTS (SELECT FROM windlass.queue q WHERE q.name = d.queue AND q.paused)  -- these are meant to wait
   AND NOT EXISTS (SELECT FROM windlass.worker w JOIN windlass.worker_life l USING (id)
                    WHERE l.alive AND d.queue = ANY (w.queues))
 ORDER BY d.queue COLLATE "C"
