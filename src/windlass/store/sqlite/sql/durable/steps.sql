-- Steps of jobs. `steps` reads alone; the others run under the write lock.

-- :save  no second one of a name
INSERT INTO windlass_step (job, name, at, until, attempt, code, result) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- :step
SELECT name, result, code, attempt, until, at FROM windlass_step WHERE job = ? AND name = ?;

-- :steps
SELECT name, result, code, attempt, until, at FROM windlass_step WHERE job = ? ORDER BY rowid;

-- :looked
SELECT job FROM windlass_step_look;

-- :look
UPDATE windlass_step_look SET job = ?;

-- :next  the next job that has steps, waits or signals, and whether it is still there
SELECT s.job, EXISTS (SELECT 1 FROM windlass_job j WHERE j.id = s.job)
           OR EXISTS (SELECT 1 FROM windlass_job j WHERE j.pos = s.job AND j.id IS NULL)
FROM (SELECT min(job) AS job FROM (
    SELECT min(job) AS job FROM windlass_step WHERE job > ?1
    UNION ALL SELECT min(job) FROM windlass_wait WHERE job > ?1
    UNION ALL SELECT min(job) FROM windlass_signal WHERE job > ?1)) s
WHERE s.job IS NOT NULL;

-- :forget
DELETE FROM windlass_step WHERE job = ?;

-- :forget_waits
DELETE FROM windlass_wait WHERE job = ?;

-- :forget_signals
DELETE FROM windlass_signal WHERE job = ?;
