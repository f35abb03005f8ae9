-- Parents. Called by parents under the write lock.

-- :load
SELECT number, id, lane, state, worker, claim, total, succeeded, dead, cancelled, out, parallel, tolerated,
       finalizer, final, final_state, result, cancelling, size, done, records, created_at, finished_at
FROM windlass_parent WHERE id = ?;

-- :add
INSERT INTO windlass_parent
    (id, lane, state, worker, claim, total, parallel, tolerated, finalizer, size, created_at)
VALUES (?, ?, 10, ?, ?, ?, ?, ?, ?, ?, ?);

-- :save
UPDATE windlass_parent
SET state = ?, succeeded = ?, dead = ?, cancelled = ?, out = ?, parallel = ?, final = ?, final_state = ?,
    result = ?, cancelling = ?, done = ?, records = ?, finished_at = ?
WHERE number = ?;

-- :origin  what its parts have of it; a parent has left the place where it was inserted
SELECT task, payload, lane, options FROM windlass_job WHERE id = ?;

-- :show_cancel  no worker runs it, so none has to stop it
UPDATE windlass_job SET cancel = 0 WHERE id = ?;

-- :take_key
INSERT INTO windlass_unique (key, job) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- :holder
SELECT job FROM windlass_unique WHERE key = ?;

-- :remove
DELETE FROM windlass_parent WHERE id = ?;

-- :remove_parts
DELETE FROM windlass_part WHERE parent = ?;

-- :waiting_in  by what they need, the jobs of a queue that wait in lanes, and the parts that are not offered
-- yet and that `parallel` does not hold back
SELECT l.needs, coalesce(sum(l.ready + (
           SELECT coalesce(sum(max(min(p.total - p.succeeded - p.dead - p.cancelled - p.out,
                                       coalesce(p.parallel - p.out, p.total)), 0)), 0)
           FROM windlass_parent p
           WHERE p.lane = l.id AND p.finished_at IS NULL AND NOT p.cancelling
             AND p.total > p.succeeded + p.dead + p.cancelled + p.out)), 0)
FROM windlass_lane l WHERE l.queue = ? GROUP BY l.needs;

-- :with_jobs  the queues in which jobs are ready
SELECT queue FROM windlass_lane INDEXED BY windlass_lane_ready WHERE ready > 0;
