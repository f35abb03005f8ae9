-- Claims and checkpoints. Called by claims and claim_limits under the write lock; `open`, `unfinished`,
-- `unfinished_places` and `claimable` by readers.

-- :alive
SELECT 1 FROM windlass_worker WHERE id = ? AND alive;

-- =heads  lanes that have something to give, and since when their first job waits; whether their queue is
-- bounded, whether any task has a limit, whether anybody has a pass of a budget, and whether any job expires
SELECT l.id, l.queue, l.priority,
       (SELECT j.touched_at FROM windlass_job j
        WHERE j.pos > (l.id << 44 | l.hi) AND j.pos < (l.id + 1) << 44 ORDER BY j.pos LIMIT 1),
       q.concurrency IS NOT NULL OR q.governor,
       EXISTS (SELECT 1 FROM windlass_task WHERE concurrency IS NOT NULL OR key_concurrency IS NOT NULL),
       EXISTS (SELECT 1 FROM windlass_pass WHERE gate >= 'budget:' AND gate < 'budget;'),
       EXISTS (SELECT 1 FROM windlass_expiry WHERE at <= ?1)

-- =able  those whose jobs a worker with the abilities ?2 may run
(l.needs = '' OR NOT EXISTS (
    SELECT 1 FROM json_each('["' || replace(l.needs, ',', '","') || '"]') n
    WHERE n.value NOT IN (SELECT value FROM json_each(?2))))

-- :heads  of these queues
{heads}
FROM windlass_lane l JOIN windlass_queue q ON q.name = l.queue
WHERE l.queue IN (SELECT value FROM json_each(?3)) AND l.ready > 0 AND {able} AND NOT q.paused
  AND (q.cool_until <= ?1 OR q.cool_until > ?1 + q.cool_cap + 1);

-- :all_heads  of all queues, for who serves many
{heads}
FROM windlass_lane l INDEXED BY windlass_lane_ready CROSS JOIN windlass_queue q ON q.name = l.queue
WHERE l.ready > 0 AND {able} AND NOT q.paused
  AND (q.cool_until <= ?1 OR q.cool_until > ?1 + q.cool_cap + 1);

-- :take  beyond the cursor are exactly the ready jobs [I1]
SELECT pos, id, task, payload, attempt, deaths, options, enqueued_at, touched_at
FROM windlass_job WHERE pos > ? AND pos <= ? ORDER BY pos LIMIT ?;

-- :next  the number that AUTOINCREMENT would give
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'windlass_claim'), 0) + 1;

-- :lease
INSERT INTO windlass_claim (id, lane, lo, hi, worker, unfinished, at) VALUES (?, ?, ?, ?, ?, ?, ?);

-- :open  a worker's claims that are not finished
SELECT c.id, c.lane, c.lane << 44 | c.lo, c.lane << 44 | c.hi, l.queue, l.priority
FROM windlass_claim c JOIN windlass_lane l ON l.id = c.lane
WHERE c.worker = ? AND c.unfinished > 0 ORDER BY c.id;

-- :unfinished  the jobs of a claim that still run [I2]
SELECT pos, id, task, payload, attempt, deaths, options, enqueued_at, touched_at
FROM windlass_job WHERE pos BETWEEN ? AND ? AND state IN (2, 3) ORDER BY pos;

-- :unfinished_places  where they are
SELECT pos FROM windlass_job WHERE pos BETWEEN ? AND ? AND state IN (2, 3);

-- :spans
SELECT id, lane << 44 | lo, lane << 44 | hi FROM windlass_claim
WHERE id IN (SELECT value FROM json_each(?)) AND worker = ?;

-- :checkpoint
INSERT INTO windlass_checkpoint (job, data, done, total, at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (job) DO UPDATE
SET data = excluded.data, done = excluded.done, total = excluded.total, at = excluded.at;

-- :bind  from now on its end has more to do
UPDATE windlass_job SET state = 3 WHERE pos = ? AND state = 2;

-- :checkpoint_again  the same with its fence [C5]: worker alive, claim its own, job running under it
INSERT INTO windlass_checkpoint (job, data, done, total, at)
SELECT ?1, ?2, ?3, ?4, ?5
FROM windlass_claim c, windlass_job j
WHERE c.id = ?7 AND c.worker = ?6 AND c.lane = ?9 AND ?10 BETWEEN c.lo AND c.hi
  AND j.pos = ?8 AND j.state = 3 AND coalesce(j.id, j.pos) = ?1
  AND EXISTS (SELECT 1 FROM windlass_worker w WHERE w.id = ?6 AND w.alive)
ON CONFLICT (job) DO UPDATE
SET data = excluded.data, done = excluded.done, total = excluded.total, at = excluded.at;

-- :claimable  those of these queues that may have something to give, and whether only so much of it
SELECT q.name, q.concurrency IS NOT NULL OR q.governor FROM windlass_queue q
WHERE q.name IN (SELECT value FROM json_each(?3)) AND NOT q.paused
  AND (q.cool_until <= ?1 OR q.cool_until > ?1 + q.cool_cap + 1)
  AND EXISTS (SELECT 1 FROM windlass_lane l WHERE l.queue = q.name AND l.ready > 0 AND {able});

-- :all_claimable  the same of all queues, for who serves many
SELECT DISTINCT q.name, q.concurrency IS NOT NULL OR q.governor
FROM windlass_lane l INDEXED BY windlass_lane_ready CROSS JOIN windlass_queue q ON q.name = l.queue
WHERE l.ready > 0 AND {able} AND NOT q.paused
  AND (q.cool_until <= ?1 OR q.cool_until > ?1 + q.cool_cap + 1);

-- :keep_started  of a queue with a governor
UPDATE windlass_queue SET tokens = ?, tokens_at = ? WHERE name = ?;
