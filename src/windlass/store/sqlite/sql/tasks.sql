-- Settings of tasks, and turns. Called by tasks: `all` by readers, the rest under the write lock.

-- :all
SELECT name, batch, batch_timeout, parallel FROM windlass_task ORDER BY name;

-- :named
SELECT name, batch, batch_timeout, parallel FROM windlass_task WHERE name = ?;

-- :keep
INSERT INTO windlass_task (name, batch, batch_timeout, parallel) VALUES (?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE
SET batch = excluded.batch, batch_timeout = excluded.batch_timeout, parallel = excluded.parallel;

-- :remove
DELETE FROM windlass_task WHERE name = ?;

-- :take_turn  no row is touched where it was taken a moment ago
INSERT INTO windlass_turn (name, at) VALUES (?1, ?2)
ON CONFLICT (name) DO UPDATE SET at = excluded.at WHERE at <= ?2 - ?3;
