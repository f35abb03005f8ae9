-- Retention. Called by retention: `lanes` by readers, the rest under the write lock.

-- :lanes
SELECT l.id, q.retention, q.dead_retention
FROM windlass_lane l JOIN windlass_queue q ON q.name = l.queue ORDER BY l.id;

-- :claims  a lane's claims from the oldest on
SELECT lo, hi, at FROM windlass_claim WHERE lane = ? AND hi > ? ORDER BY hi;

-- :remove_finished
DELETE FROM windlass_job WHERE pos BETWEEN ? AND ? AND state IN (4, 6) AND touched_at <= ?;

-- :remove_claims  those that no job needs any more to know who ran it
DELETE FROM windlass_claim
WHERE lane = ? AND hi BETWEEN ? AND ? AND unfinished = 0
  AND NOT EXISTS (SELECT 1 FROM windlass_job j
                  WHERE j.pos BETWEEN (windlass_claim.lane << 44 | windlass_claim.lo)
                                  AND (windlass_claim.lane << 44 | windlass_claim.hi)
                    AND j.state IN (4, 5, 6));

-- :remove_cancelled  parents go with their parts
DELETE FROM windlass_job WHERE pos IN (
    SELECT pos FROM windlass_job j
    WHERE lane = ? AND state = 6 AND state IN (5, 6) AND touched_at <= ?
      AND NOT EXISTS (SELECT 1 FROM windlass_parent p WHERE p.id = j.id)
    LIMIT ?);

-- :last_insert  the last of the next few inserts that are old enough; the newest of all stays, for its number
SELECT max(number) FROM (
    SELECT number FROM windlass_insert
    WHERE number > ? AND number < (SELECT max(number) FROM windlass_insert) AND at <= ?
    ORDER BY number LIMIT ?);

-- :remove_inserts
DELETE FROM windlass_insert
WHERE number > ? AND number <= ?
  AND NOT EXISTS (SELECT 1 FROM windlass_job j
                  WHERE j.pos BETWEEN windlass_insert.lo AND windlass_insert.lo + windlass_insert.n - 1
                    AND j.id IS NULL)
  AND NOT EXISTS (SELECT 1 FROM windlass_job j
                  WHERE j.id BETWEEN windlass_insert.lo AND windlass_insert.lo + windlass_insert.n - 1);

-- :dead_retentions
SELECT l.id, q.dead_retention FROM windlass_lane l JOIN windlass_queue q ON q.name = l.queue
WHERE l.dead > 0 ORDER BY l.id;

-- :remove_dead  parents go with their parts
DELETE FROM windlass_job WHERE pos IN (
    SELECT pos FROM windlass_job j
    WHERE lane = ? AND state = 5 AND state IN (5, 6) AND touched_at <= ?
      AND NOT EXISTS (SELECT 1 FROM windlass_parent p WHERE p.id = j.id)
    LIMIT ?);

-- :past_parents  those of a lane that ended so, and long enough ago
SELECT id FROM windlass_parent WHERE lane = ? AND state = ? AND finished_at <= ? ORDER BY finished_at LIMIT ?;

-- :remove_keys
DELETE FROM windlass_idempotency WHERE key IN (SELECT key FROM windlass_idempotency WHERE at <= ? LIMIT ?);

-- :remove_workers
DELETE FROM windlass_worker
WHERE id IN (SELECT id FROM windlass_worker WHERE NOT alive AND heartbeat_at <= ? LIMIT ?);

-- :forget_deaths
DELETE FROM windlass_key_death WHERE key IN (SELECT key FROM windlass_key_death WHERE last <= ? LIMIT ?);
