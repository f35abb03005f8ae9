-- Queues of which only so many jobs run, or start, at a time. Called by governor under the write lock; `bounds` also by
-- readers.

-- :bounds  what bounds each of these queues
SELECT q.name, q.concurrency, (SELECT total(l.running) FROM windlass_lane l WHERE l.queue = q.name),
       q.governor, q.rate_min, q.rate_max, q.decided, q.tokens, q.tokens_at
FROM windlass_queue q WHERE q.name IN (SELECT value FROM json_each(?));

-- :take
UPDATE windlass_queue SET tokens = ?, tokens_at = ? WHERE name = ?;

-- :told
SELECT reported FROM windlass_queue WHERE name = ? AND governor;

-- :tell
UPDATE windlass_queue SET reported = ? WHERE name = ?;

-- :governed
SELECT q.name, q.rate_min, q.rate_max, q.decided, q.reported,
       (SELECT total(l.ready + l.held) FROM windlass_lane l WHERE l.queue = q.name)
FROM windlass_queue q WHERE q.governor ORDER BY q.name;

-- :forget_reports
UPDATE windlass_queue SET reported = NULL WHERE governor AND reported IS NOT NULL;

-- :decide
UPDATE windlass_queue SET decided = ?, tokens = ?, tokens_at = ? WHERE name = ?;
