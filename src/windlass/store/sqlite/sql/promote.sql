-- Promotion. Called by promote under the write lock.

-- :due
SELECT pos, lane, state, touched_at, attempt, deaths, options, id, cancel, errors
FROM windlass_job WHERE run_at IS NOT NULL AND run_at <= ? ORDER BY run_at, coalesce(id, pos) LIMIT ?;

-- :lanes  those with held jobs, in the order they were declared
SELECT l.id, q.window FROM windlass_lane l JOIN windlass_queue q ON q.name = l.queue WHERE l.held > 0 ORDER BY l.id;

-- :next  the oldest job of the first key after the one served last
SELECT fair_key, pos, lane, state, touched_at, attempt, deaths, options, id, cancel, errors
FROM windlass_job WHERE state = 9 AND lane = ? AND fair_key > ? ORDER BY fair_key, pos LIMIT 1;

-- :first  the ring begins anew
SELECT fair_key, pos, lane, state, touched_at, attempt, deaths, options, id, cancel, errors
FROM windlass_job WHERE state = 9 AND lane = ? ORDER BY fair_key, pos LIMIT 1;
