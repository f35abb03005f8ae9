-- Signals to jobs, and jobs that wait for them. `waits` and `of_job` read alone; the others run under the
-- write lock.

-- :kept
SELECT count(*) FROM (SELECT 1 FROM windlass_signal WHERE job = ? LIMIT 1000);

-- :kept_of
SELECT 1 FROM windlass_signal WHERE job = ? AND name = ? LIMIT 1;

-- :send
INSERT INTO windlass_signal (job, name, at, value) VALUES (?, ?, ?, ?);

-- :oldest  which is taken
DELETE FROM windlass_signal
WHERE no = (SELECT no FROM windlass_signal WHERE job = ? AND name = ? ORDER BY no LIMIT 1) RETURNING value;

-- :is_used
SELECT 1 FROM windlass_signal_once WHERE token = ? AND until > ?;

-- :use
INSERT INTO windlass_signal_once (token, until) VALUES (?1, ?2)
ON CONFLICT (token) DO UPDATE SET until = excluded.until WHERE until <= ?3;

-- :forget_used
DELETE FROM windlass_signal_once
WHERE token IN (SELECT token FROM windlass_signal_once WHERE until < ? ORDER BY until LIMIT ?);

-- :looked
SELECT job FROM windlass_signal_look;

-- :look
UPDATE windlass_signal_look SET job = ?;

-- :next  the next job that waits or has signals, and whether it is still there
SELECT s.job, EXISTS (SELECT 1 FROM windlass_job j WHERE j.id = s.job)
           OR EXISTS (SELECT 1 FROM windlass_job j WHERE j.pos = s.job AND j.id IS NULL)
FROM (SELECT min(job) AS job FROM (
    SELECT min(job) AS job FROM windlass_wait WHERE job > ?1
    UNION ALL SELECT min(job) FROM windlass_signal WHERE job > ?1)) s
WHERE s.job IS NOT NULL;

-- :ask  once more; until when
UPDATE windlass_wait SET claim = ?, suspended = 0 WHERE job = ? AND name = ? RETURNING until;

-- :begin
INSERT INTO windlass_wait (job, name, signal, claim, at, until, shape) VALUES (?, ?, ?, ?, ?, ?, ?);

-- :end
DELETE FROM windlass_wait WHERE job = ? AND name = ?;

-- :suspend  what was asked under this claim
UPDATE windlass_wait SET suspended = claim = ? WHERE job = ?;

-- :suspension  the first timeout, and whether a signal is there
SELECT min(w.until), max(EXISTS (SELECT 1 FROM windlass_signal s WHERE s.job = w.job AND s.name = w.signal))
FROM windlass_wait w WHERE w.job = ? AND w.suspended HAVING count(*) > 0;

-- :waits_for
SELECT name, shape FROM windlass_wait WHERE job = ? AND signal = ? AND suspended ORDER BY no LIMIT 1;

-- :of_job  while it waits
SELECT signal, at, until FROM windlass_wait WHERE job = ? AND suspended ORDER BY no;

-- :waits
SELECT w.job, j.task, l.queue, w.signal, w.at AS since, w.until, w.shape, w.name, w.no AS number
FROM windlass_wait w
JOIN windlass_job j ON j.pos = coalesce((SELECT m.pos FROM windlass_job m WHERE m.id = w.job), w.job)
JOIN windlass_lane l ON l.id = j.lane
WHERE w.suspended AND j.state = 7 AND (?1 IS NULL OR w.job = ?1) AND (?2 IS NULL OR w.no < ?2)
AND (?3 IS NULL OR w.signal = ?3)
ORDER BY w.no DESC LIMIT ?4;
