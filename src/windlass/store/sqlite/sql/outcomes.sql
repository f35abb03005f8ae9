-- Outcomes in bulk. Called by outcomes under the write lock.

-- :count  with the first and the last task by name: mostly there is one
SELECT count(*), min(task), max(task) FROM windlass_job WHERE pos BETWEEN ? AND ? AND state = 2;

-- :tasks
SELECT task, count(*) FROM windlass_job WHERE pos BETWEEN ? AND ? AND state = 2 GROUP BY task;

-- :simple  those of these places whose end has nothing to see to but passes: nobody comes after them, and no
-- checkpoint, unique key, parent or wish to cancel is to be looked at. Options are written without spaces; a
-- value that looks like one of these names only sends its job the long way.
SELECT j.pos, coalesce(j.id, j.pos), j.state, j.task FROM windlass_job j
WHERE j.pos IN (SELECT value FROM json_each(?)) AND j.state IN (2, 3) AND j.cancel IS NULL
  AND (j.options IS NULL OR (instr(j.options, '"unique_key":') = 0 AND instr(j.options, '"part":') = 0
                             AND instr(j.options, '"after":') = 0))
  AND NOT EXISTS (SELECT 1 FROM windlass_checkpoint c WHERE c.job = coalesce(j.id, j.pos))
  AND NOT EXISTS (SELECT 1 FROM windlass_after a WHERE a.awaited = coalesce(j.id, j.pos));

-- :succeed_range  the row keeps its size and no index holds it: it is overwritten in place
UPDATE windlass_job SET state = 4, touched_at = ? WHERE pos BETWEEN ? AND ? AND state = 2;

-- :succeed_places
UPDATE windlass_job SET state = 4, touched_at = ? WHERE pos IN (SELECT value FROM json_each(?));

-- :result
UPDATE windlass_job SET result = ? WHERE pos = ?;

-- :sent_before
SELECT claim, seqs FROM windlass_flush WHERE worker = ? AND flush = ?;

-- :remember
INSERT INTO windlass_flush (worker, flush, claim, seqs) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET seqs = excluded.seqs;

-- :forget
DELETE FROM windlass_flush WHERE worker = ? AND flush < ?;

-- :ended_in  what a worker's flushes have ended of a claim; a worker has a thousand flushes at most
SELECT seqs FROM windlass_flush WHERE worker = ? AND claim = ?;
