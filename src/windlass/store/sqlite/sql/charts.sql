-- Looking at what was measured. Called by charts, in a read transaction.

-- :measured
SELECT sample FROM windlass_rollup WHERE span = ? AND queue = ? AND task = ? AND at >= ? AND at < ? ORDER BY at;

-- :totals
SELECT sample FROM windlass_rollup WHERE span = 0 ORDER BY queue, task;

-- :events
SELECT id, at, kind, told, job, queue, task, worker, attempt, ms FROM windlass_event
WHERE id < ? ORDER BY id DESC LIMIT ?;

-- :events_of_queue
SELECT id, at, kind, told, job, queue, task, worker, attempt, ms FROM windlass_event
WHERE queue = ? AND id < ? ORDER BY id DESC LIMIT ?;

-- :events_of_job
SELECT id, at, kind, told, job, queue, task, worker, attempt, ms FROM windlass_event
WHERE job = ? AND id < ? AND queue = coalesce(?, queue) ORDER BY id DESC LIMIT ?;
