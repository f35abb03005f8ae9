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

-- :next  the next job that has steps, and whether it is still there
SELECT s.job, EXISTS (SELECT 1 FROM windlass_job j WHERE j.id = s.job)
           OR EXISTS (SELECT 1 FROM windlass_job j WHERE j.pos = s.job AND j.id IS NULL)
FROM windlass_step s WHERE s.job > ? ORDER BY s.job LIMIT 1;

-- :forget
DELETE FROM windlass_step WHERE job = ?;
