-- Workers. Called by workers: `alive`, `published`, `published_tasks` and `elsewhere` also by
-- readers, the rest under the write lock.

-- :known
SELECT 1 FROM windlass_worker WHERE id = ?;

-- :elsewhere  a live worker of another machine: neither its machine id nor its boot id is ours
SELECT host, label FROM windlass_worker
WHERE alive AND machine <> ? AND boot <> ? AND heartbeat_at > ? LIMIT 1;

-- :register
INSERT INTO windlass_worker
    (id, label, host, pid, queues, tasks, machine, boot, lease, alive, started_at, heartbeat_at, abilities)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?);

-- :published  what live workers say of a task
SELECT t.value, t.value IN (SELECT q.value FROM json_each(w.queues) q), w.started_at
FROM windlass_worker w, json_each(w.tasks) t WHERE w.alive AND t.key = ?;

-- :published_tasks
SELECT DISTINCT t.key FROM windlass_worker w, json_each(w.tasks) t WHERE w.alive ORDER BY t.key;

-- :heartbeat
UPDATE windlass_worker SET heartbeat = heartbeat + 1, heartbeat_at = ? WHERE id = ?;

-- :to_cancel
SELECT coalesce(id, pos) FROM windlass_job WHERE cancel = ? AND cancel > 0;

-- :alive
SELECT w.id, w.label, w.host, w.pid, w.queues, w.alive, w.heartbeat, w.started_at, w.heartbeat_at, w.lease,
  w.abilities, t.vitals, t.vitals_at
FROM windlass_worker w LEFT JOIN windlass_reporter t ON t.source = w.id
WHERE w.alive ORDER BY w.started_at, w.id;

-- :mark_dead
UPDATE windlass_worker SET alive = 0 WHERE id = ? AND alive;

-- :stands_at  the heartbeat of a dead worker means nothing
SELECT 1 FROM windlass_worker WHERE id = ? AND (heartbeat = ? OR NOT alive);

-- :forget_flushes
DELETE FROM windlass_flush WHERE worker = ?;

-- :runs  in which run of a key these jobs are
SELECT job, run FROM windlass_pass WHERE job IN (SELECT value FROM json_each(?)) AND run IS NOT NULL;

-- :held  the unfinished jobs of a worker's claims
SELECT {row}
FROM windlass_claim c
CROSS JOIN windlass_job j ON j.pos BETWEEN (c.lane << 44 | c.lo) AND (c.lane << 44 | c.hi)
  AND j.state IN (2, 3)
WHERE c.worker = ? AND c.unfinished > 0
ORDER BY c.id, j.pos;
