-- Waiting lists. Called by waiting_lists under the write lock; `after`, `since`, `waiting` and `passes` also
-- by readers.

-- ── gates ──────────────────────────────────────────────────────────────────────────────────────────────────

-- :first  who waits at a gate
SELECT {row} FROM windlass_job j WHERE state = 9 AND gate = ? ORDER BY pos LIMIT 1;

-- :keep_cursor
UPDATE windlass_walk SET gate = ? WHERE kind = ?;

-- :cursor
SELECT gate FROM windlass_walk WHERE kind = ?;

-- :after  the next gate with a waiting list, by its name, before another one
SELECT gate FROM windlass_job WHERE state = 9 AND gate > ? AND gate < ? ORDER BY gate LIMIT 1;

-- :since  when the first who waits became ready
SELECT touched_at FROM windlass_job WHERE state = 9 AND gate = ? ORDER BY pos LIMIT 1;

-- :waiting
SELECT count(*) FROM (SELECT 1 FROM windlass_job WHERE state = 9 AND gate = ? LIMIT ?);

-- :passes
SELECT {places} FROM (SELECT run FROM windlass_pass WHERE gate = ? LIMIT ?) p;

-- :fitting  those with too large a need who need no more than this
SELECT {row} FROM windlass_job j WHERE state = 9 AND gate = ? AND need <= ? ORDER BY pos LIMIT ?;

-- :with_pass  jobs beyond a gate
SELECT job FROM windlass_pass WHERE gate = ? LIMIT ?;
