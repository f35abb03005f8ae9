-- Parts. Called by parts under the write lock.

-- :add
INSERT INTO windlass_part (parent, number, state, size, span) VALUES (?, ?, 0, ?, ?);

-- :pending  the next to be released, the lowest index first
SELECT number, span, size, data, done, goal, at FROM windlass_part
WHERE parent = ? AND state = 0 AND state <> 4 ORDER BY number LIMIT ?;

-- :release  what it has saved before is its job's checkpoint from now on
UPDATE windlass_part SET state = 1, job = ?, attempt = 0, error = NULL, data = NULL, goal = NULL, at = NULL
WHERE parent = ? AND number = ?;

-- :restore
INSERT INTO windlass_checkpoint (job, data, done, total, at) VALUES (?, ?, ?, ?, ?);

-- :of_job  the part that this job runs, or ran last
SELECT state, size, done, records, data, goal, at FROM windlass_part WHERE parent = ? AND number = ? AND job = ?;

-- :end
UPDATE windlass_part
SET state = ?, attempt = ?, done = ?, records = ?, error = ?, data = ?, goal = ?, at = ?
WHERE parent = ? AND number = ?;

-- :out  the jobs of those that are out
SELECT job FROM windlass_part WHERE parent = ? AND state = 1 AND state <> 4 ORDER BY number;

-- :failed  the jobs of those that have ended otherwise than well
SELECT number, state, job FROM windlass_part WHERE parent = ? AND state IN (5, 6) AND state <> 4;

-- :again
UPDATE windlass_part SET state = 0, job = NULL, attempt = 0, error = NULL WHERE parent = ? AND number = ?;

-- :run_by  whichever part a job with unreadable options runs; looks at all that are open
SELECT parent, number FROM windlass_part WHERE state = 1 AND state <> 4 AND job = ?;
