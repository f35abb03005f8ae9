-- Looking at what was measured. Called by charts, in a read transaction.

-- :measured
SELECT sample, at, queue, task FROM windlass_rollup WHERE span = ? AND queue = ? AND task = ? AND at >= ? AND at < ? ORDER BY at;

-- :totals
SELECT sample, at, queue, task FROM windlass_rollup WHERE span = 0 ORDER BY queue, task;

-- :events
SELECT id, at, kind, told, job, queue, task, worker, attempt, ms FROM windlass_event
WHERE id < ? ORDER BY id DESC LIMIT ?;

-- :events_of_queue
SELECT id, at, kind, told, job, queue, task, worker, attempt, ms FROM windlass_event
WHERE queue = ? AND id < ? ORDER BY id DESC LIMIT ?;

-- :events_of_job
SELECT id, at, kind, told, job, queue, task, worker, attempt, ms FROM windlass_event
WHERE job = ? AND id < ? AND queue = coalesce(?, queue) ORDER BY id DESC LIMIT ?;

-- :dead  from the index alone
SELECT j.pos, j.task, j.touched_at, j.errors ->> '$[#-1].type' FROM windlass_job j INDEXED BY windlass_job_cause
WHERE j.state = 5 ORDER BY j.number DESC LIMIT ?;

-- :dead_of_queue  the counters of its lanes say when all of them are found
SELECT j.pos, j.task, j.touched_at, j.errors ->> '$[#-1].type' FROM windlass_job j INDEXED BY windlass_job_cause
WHERE j.state = 5 AND j.lane IN (SELECT l.id FROM windlass_lane l WHERE l.queue = ?1)
ORDER BY j.number DESC LIMIT min(?2, (SELECT coalesce(sum(l.dead), 0) FROM windlass_lane l WHERE l.queue = ?1));

-- :last_words
SELECT errors, reason FROM windlass_job WHERE pos = ?;
