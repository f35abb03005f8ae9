-- The ring of fair keys. Called by turns under the write lock.

-- :lanes  those with held jobs, in the order they were declared
SELECT id FROM windlass_lane WHERE held > 0 ORDER BY id;

-- :window  how many of a lane's jobs may wait in it
SELECT window FROM windlass_queue WHERE name = ?;

-- :next  the oldest job of the first key after the one served last
SELECT fair_key, pos, lane, state, touched_at, attempt, deaths, options, id, cancel, errors, task, gate, need
FROM windlass_job WHERE state = 9 AND gate IS NULL AND lane = ? AND fair_key > ? ORDER BY fair_key, pos LIMIT 1;

-- :first  the ring begins anew
SELECT fair_key, pos, lane, state, touched_at, attempt, deaths, options, id, cancel, errors, task, gate, need
FROM windlass_job WHERE state = 9 AND gate IS NULL AND lane = ? ORDER BY fair_key, pos LIMIT 1;
