-- Jobs that a flush claims. Called by flush_claims under the write lock.

-- :lanes  of these queues, and whether only so many of their jobs may run, or start, at a time
SELECT l.queue, l.id, l.needs, q.concurrency IS NOT NULL OR q.governor
FROM windlass_lane l JOIN windlass_queue q ON q.name = l.queue
WHERE l.queue IN (SELECT value FROM json_each(?));

-- :abilities  those that a worker has registered with
SELECT abilities FROM windlass_worker WHERE id = ?;
