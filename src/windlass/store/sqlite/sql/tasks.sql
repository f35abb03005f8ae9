-- Settings of tasks, and turns. Called by tasks: `all` by readers, the rest under the write lock.

-- :all
SELECT name, batch, batch_timeout, parallel, concurrency, key_concurrency FROM windlass_task ORDER BY name;

-- :named
SELECT name, batch, batch_timeout, parallel, concurrency, key_concurrency FROM windlass_task WHERE name = ?;

-- :keep
INSERT INTO windlass_task (name, batch, batch_timeout, parallel, concurrency, key_concurrency) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE
SET batch = excluded.batch, batch_timeout = excluded.batch_timeout, parallel = excluded.parallel,
    concurrency = excluded.concurrency, key_concurrency = excluded.key_concurrency;

-- :running  jobs of a task that run without a pass of this gate; never more run than workers can hold
SELECT j.pos, coalesce(j.id, j.pos)
FROM windlass_claim c
CROSS JOIN windlass_job j ON j.pos BETWEEN (c.lane << 44 | c.lo) AND (c.lane << 44 | c.hi) AND j.state IN (2, 3)
WHERE c.unfinished > 0 AND j.task = ?1
  AND NOT EXISTS (SELECT 1 FROM windlass_pass p WHERE p.job = coalesce(j.id, j.pos) AND p.gate = ?2);

-- :remove
DELETE FROM windlass_task WHERE name = ?;

-- :take_turn  no row is touched where it was taken a moment ago
INSERT INTO windlass_turn (name, at) VALUES (?1, ?2)
ON CONFLICT (name) DO UPDATE SET at = excluded.at WHERE at <= ?2 - ?3 OR at > ?2 + 1;
