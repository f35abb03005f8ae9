-- Lines. Called by lines under the write lock; `after`, `since`, `waiting` and `passes` also by readers.

-- :first  of a line
SELECT pos, lane, state, touched_at, attempt, deaths, options, id, cancel, errors, task, gate, need
FROM windlass_job WHERE state = 9 AND gate = ? ORDER BY pos LIMIT 1;

-- :keep_cursor
UPDATE windlass_walk SET gate = ? WHERE kind = ?;

-- :cursor
SELECT gate FROM windlass_walk WHERE kind = ?;

-- :after  the next gate with a line, by its name, before another one
SELECT gate FROM windlass_job WHERE state = 9 AND gate > ? AND gate < ? ORDER BY gate LIMIT 1;

-- :since  when the first of a line became ready
SELECT touched_at FROM windlass_job WHERE state = 9 AND gate = ? ORDER BY pos LIMIT 1;

-- :waiting
SELECT count(*) FROM (SELECT 1 FROM windlass_job WHERE state = 9 AND gate = ? LIMIT ?);

-- :passes
SELECT count(*) FROM (SELECT 1 FROM windlass_pass WHERE gate = ? LIMIT ?);

-- :fitting  those of an over-line that need no more than this
SELECT pos, lane, state, touched_at, attempt, deaths, options, id, cancel, errors, task, gate, need
FROM windlass_job WHERE state = 9 AND gate = ? AND need <= ? ORDER BY pos LIMIT ?;

-- :with_pass  jobs beyond a gate
SELECT job FROM windlass_pass WHERE gate = ? LIMIT ?;
