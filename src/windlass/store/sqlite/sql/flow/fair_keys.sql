-- Turns of fair keys. Called by fair_keys under the write lock.

-- :held_lanes  those with held jobs, in the order they were declared
SELECT id FROM windlass_lane WHERE held > 0 ORDER BY id;

-- :window  how many of a lane's jobs may wait in it
SELECT window FROM windlass_queue WHERE name = ?;

-- :any  whether anybody waits for a turn: mostly those who are held wait at gates
SELECT 1 FROM windlass_job INDEXED BY windlass_job_ring WHERE {held} LIMIT 1;

-- :ring_first  the first keys of the ring: a probe of the index each, however many jobs they hold
WITH RECURSIVE ring (key, n) AS (
    SELECT (SELECT min(fair_key) FROM windlass_job WHERE {held}), 1
    UNION ALL
    SELECT (SELECT min(fair_key) FROM windlass_job WHERE {held} AND fair_key > ring.key), n + 1
    FROM ring WHERE ring.key IS NOT NULL AND n < ?2)
SELECT key FROM ring WHERE key IS NOT NULL;

-- :ring_next  those after the one served last
WITH RECURSIVE ring (key, n) AS (
    SELECT (SELECT min(fair_key) FROM windlass_job WHERE {held} AND fair_key > ?3), 1
    UNION ALL
    SELECT (SELECT min(fair_key) FROM windlass_job WHERE {held} AND fair_key > ring.key), n + 1
    FROM ring WHERE ring.key IS NOT NULL AND n < ?2)
SELECT key FROM ring WHERE key IS NOT NULL;

-- =held  the jobs of a lane that wait for their turn
state = 9 AND gate IS NULL AND lane = ?1

-- :first_of_keys  so many of the oldest jobs of each of these keys, and whether they have a checkpoint or a
-- pass, or others come after them
SELECT j.fair_key,
       EXISTS (SELECT 1 FROM windlass_checkpoint c WHERE c.job = coalesce(j.id, j.pos))
       OR EXISTS (SELECT 1 FROM windlass_after a WHERE a.awaited = coalesce(j.id, j.pos))
       OR EXISTS (SELECT 1 FROM windlass_pass p WHERE p.job = coalesce(j.id, j.pos)),
       j.pos, coalesce(j.id, j.pos), j.options
FROM json_each(?1) k
JOIN windlass_job j ON j.pos IN
    (SELECT w.pos FROM windlass_job w
     WHERE w.state = 9 AND w.gate IS NULL AND w.lane = ?2 AND w.fair_key = k.value ORDER BY w.pos LIMIT ?3);
