-- Queues with jobs that are ready, or due, and no worker that is alive to run them. Callers: diagnosis. Lock: none.
SELECT d.queue, d.ready + due.n AS waiting
  FROM windlass.depth() AS d
 CROSS JOIN LATERAL (SELECT count(*) AS n FROM windlass.deferred x
                      WHERE x.queue = d.queue AND x.run_at <= windlass.now()) AS due
 WHERE d.ready + due.n > 0
   AND NOT EXISTS (SELECT FROM windlass.queue q WHERE q.name = d.queue AND q.paused)  -- these are meant to wait
   AND NOT EXISTS (SELECT FROM windlass.worker w JOIN windlass.worker_life l USING (id)
                    WHERE l.alive AND d.queue = ANY (w.queues))
 ORDER BY d.queue COLLATE "C"
