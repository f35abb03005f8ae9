-- Whether there is work. Called by work, in a read transaction.

-- :waiting  those of these queues that may have something to give, and whether only so much of it
SELECT q.name, q.concurrency IS NOT NULL OR q.governor FROM windlass_queue q
WHERE q.name IN (SELECT value FROM json_each(?1)) AND NOT q.paused
  AND (q.cool_until <= ?2 OR q.cool_until > ?2 + q.cool_cap + 1)
  AND EXISTS (SELECT 1 FROM windlass_lane l WHERE l.queue = q.name AND l.ready > 0);
