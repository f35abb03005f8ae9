-- Jobs that come after others, and promotion. Called by deferred under the write lock.

-- :add
INSERT INTO windlass_after (awaited, job, run_at) VALUES (?, ?, ?);

-- :close  the job that ends a group does not wait for itself any more
DELETE FROM windlass_after WHERE awaited = ? AND job = ?;

-- :bind  the end of one that others come after has more to do
UPDATE windlass_job SET state = 3 WHERE pos = ? AND state = 2;

-- :any
SELECT 1 FROM windlass_after LIMIT 1;

-- :ended  remember how an awaited job ended
INSERT INTO windlass_awaited (job, state)
SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM windlass_after WHERE awaited = ?1)
ON CONFLICT (job) DO UPDATE SET state = excluded.state;

-- :next_ended
SELECT job, state FROM windlass_awaited ORDER BY job LIMIT 1;

-- :waiting_for  those that wait for this one
SELECT job, run_at FROM windlass_after WHERE awaited = ? ORDER BY job LIMIT ?;

-- :failed  groups remember which of their jobs have not succeeded
UPDATE windlass_group_job SET failed = 1
WHERE job = ?1 AND group_end IN (SELECT value FROM json_each(?2));

-- :rejoin  those that wait still and have seen this job fail
UPDATE windlass_group_job SET failed = 0
WHERE job = ? AND failed AND EXISTS (SELECT 1 FROM windlass_after a WHERE a.job = group_end)
RETURNING group_end;

-- :arrived
DELETE FROM windlass_after WHERE awaited = ? AND job IN (SELECT value FROM json_each(?));

-- :seen_to
DELETE FROM windlass_awaited WHERE job = ?;

-- :waits  those of these jobs that still wait for others; one edge is enough: a group has any number
SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM windlass_after WHERE job = value);

-- :forget
DELETE FROM windlass_after WHERE job = ?;

-- :due
SELECT {row} FROM windlass_job j
WHERE run_at IS NOT NULL AND run_at <= ? ORDER BY run_at, coalesce(id, pos) LIMIT ?;
