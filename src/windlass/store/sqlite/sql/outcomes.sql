-- Outcomes in bulk. Called by outcomes under the write lock.

-- :count  with the first and the last task by name: mostly there is one
SELECT count(*), min(task), max(task) FROM windlass_job WHERE pos BETWEEN ? AND ? AND state = 2;

-- :tasks
SELECT task, count(*) FROM windlass_job WHERE pos BETWEEN ? AND ? AND state = 2 GROUP BY task;

-- :plain
SELECT pos, task FROM windlass_job WHERE pos IN (SELECT value FROM json_each(?)) AND state = 2;

-- :succeed_range  the row keeps its size and no index holds it: it is overwritten in place
UPDATE windlass_job SET state = 4, touched_at = ? WHERE pos BETWEEN ? AND ? AND state = 2;

-- :succeed_places
UPDATE windlass_job SET state = 4, touched_at = ? WHERE pos IN (SELECT value FROM json_each(?)) AND state = 2;

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
