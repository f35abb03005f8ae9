-- Streams of jobs. `read` reads alone; the others run under the write lock.

-- :last
SELECT position, claim, run FROM windlass_stream WHERE job = ? ORDER BY position DESC LIMIT 1;

-- :append
INSERT INTO windlass_stream (job, position, claim, at, n, run, attempt, events)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- :trim
DELETE FROM windlass_stream WHERE job = ? AND position <= ?;

-- :read
SELECT position, n, run, attempt, at, events FROM windlass_stream WHERE job = ? AND position > ?
ORDER BY position LIMIT ?;

-- :looked
SELECT job FROM windlass_stream_look;

-- :look
UPDATE windlass_stream_look SET job = ?;

-- :next  the next job that has a stream, and whether it is still there
SELECT s.job, EXISTS (SELECT 1 FROM windlass_job j WHERE j.id = s.job)
           OR EXISTS (SELECT 1 FROM windlass_job j WHERE j.pos = s.job AND j.id IS NULL)
FROM windlass_stream s WHERE s.job > ? ORDER BY s.job LIMIT 1;

-- :forget  a bounded piece
DELETE FROM windlass_stream WHERE rowid IN
    (SELECT rowid FROM windlass_stream WHERE job = ? ORDER BY position LIMIT ?);
