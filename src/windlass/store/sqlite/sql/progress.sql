-- Parents and parts as others see them. Called by progress, in a read transaction.

-- :parent
SELECT p.id, j.task, l.queue, p.state, p.total, p.succeeded, p.dead, p.cancelled, p.out, p.parallel, p.tolerated,
       p.size, p.done, p.records, p.final, j.cancel, j.reason, p.created_at, p.finished_at
FROM windlass_parent p CROSS JOIN windlass_job j ON j.id = p.id CROSS JOIN windlass_lane l ON l.id = p.lane
WHERE p.id = ?;

-- :all
SELECT p.id, j.task, l.queue, p.state, p.total, p.succeeded, p.dead, p.cancelled, p.out, p.parallel, p.tolerated,
       p.size, p.done, p.records, p.final, j.cancel, j.reason, p.created_at, p.finished_at
FROM windlass_parent p CROSS JOIN windlass_job j ON j.id = p.id CROSS JOIN windlass_lane l ON l.id = p.lane
ORDER BY p.number DESC LIMIT ?;

-- :active
SELECT p.id, j.task, l.queue, p.state, p.total, p.succeeded, p.dead, p.cancelled, p.out, p.parallel, p.tolerated,
       p.size, p.done, p.records, p.final, j.cancel, j.reason, p.created_at, p.finished_at
FROM windlass_parent p CROSS JOIN windlass_job j ON j.id = p.id CROSS JOIN windlass_lane l ON l.id = p.lane
WHERE p.finished_at IS NULL ORDER BY p.number DESC LIMIT ?;

-- :saved  what the parts that are out have saved, and what the parent has counted of them before
SELECT c.data, c.done, p.done, p.records
FROM windlass_part p CROSS JOIN windlass_checkpoint c ON c.job = p.job
WHERE p.parent = ? AND p.state = 1 AND p.state <> 4;

-- :parts
SELECT number, state, size, span, job, attempt, done, records, error
FROM windlass_part WHERE parent = ? AND number >= ? ORDER BY number LIMIT ?;

-- :head
SELECT total, created_at FROM windlass_parent WHERE id = ?;
