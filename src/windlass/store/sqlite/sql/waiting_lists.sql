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
SELECT count(*) FROM (SELECT 1 FROM windlass_pass WHERE gate = ? LIMIT ?);

-- :fitting  those with too large a need who need no more than this
SELECT {row} FROM windlass_job j WHERE state = 9 AND gate = ? AND need <= ? ORDER BY pos LIMIT ?;

-- :with_pass  jobs beyond a gate
SELECT job FROM windlass_pass WHERE gate = ? LIMIT ?;

-- ── fair keys ──────────────────────────────────────────────────────────────────────────────────────────────

-- :held_lanes  those with held jobs, in the order they were declared
SELECT id FROM windlass_lane WHERE held > 0 ORDER BY id;

-- :window  how many of a lane's jobs may wait in it
SELECT window FROM windlass_queue WHERE name = ?;

-- :ring_next  the oldest job of the first key after the one served last
SELECT j.fair_key, {row}
FROM windlass_job j WHERE state = 9 AND gate IS NULL AND lane = ? AND fair_key > ?
ORDER BY fair_key, pos LIMIT 1;

-- :ring_first  the ring starts over
SELECT j.fair_key, {row}
FROM windlass_job j WHERE state = 9 AND gate IS NULL AND lane = ? ORDER BY fair_key, pos LIMIT 1;
