-- Steps of jobs. `steps` reads alone; the others run under the write lock.

-- :save  no second one of a name
INSERT INTO windlass_step (job, name, at, until, attempt, code, result) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- :step
SELECT name, result, code, attempt, until, at FROM windlass_step WHERE job = ? AND name = ?;

-- :steps
SELECT name, result, code, attempt, until, at FROM windlass_step WHERE job = ? ORDER BY rowid;

-- :looked
SELECT step FROM windlass_step_look;

-- :look
UPDATE windlass_step_look SET step = ?;

-- :last
SELECT max(rowid) FROM windlass_step;

-- :first_young  one of the future was written before the clock was set back, and says nothing
SELECT rowid FROM windlass_step WHERE rowid > ? AND rowid <= ? AND at BETWEEN ? AND ? ORDER BY rowid LIMIT 1;

-- :gone  of the jobs of these steps, those that are there no more; a part that is to run again has its last
-- job's
SELECT DISTINCT s.job FROM windlass_step s
WHERE s.rowid > ? AND s.rowid <= ? AND s.at < ?
  AND NOT EXISTS (SELECT 1 FROM windlass_job j WHERE j.id = s.job)
  AND NOT EXISTS (SELECT 1 FROM windlass_job j WHERE j.pos = s.job AND j.id IS NULL)
  AND NOT EXISTS (SELECT 1 FROM windlass_part p WHERE p.earlier = s.job);

-- :forget_waits
DELETE FROM windlass_wait WHERE job = ?;

-- :forget_signals
DELETE FROM windlass_signal WHERE job = ?;

-- :forget
DELETE FROM windlass_step WHERE job = ?;
