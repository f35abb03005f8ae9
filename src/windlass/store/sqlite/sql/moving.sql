-- What leaves for another store. Called by moving: `close` and `reopen` under the write lock, the others in a
-- snapshot of a store that is closed.

-- =key  what a job is known by elsewhere; its time, too, since a backup that works on gives out the same ids
coalesce(j.id, j.pos) || '@' || j.enqueued_at

-- =moved  a job with all that goes with it
SELECT coalesce(j.id, j.pos) || '@' || j.enqueued_at, j.pos, j.number, coalesce(j.id, j.pos), l.queue,
       l.priority, j.state, j.task, j.payload, j.options, j.attempt, j.deaths, j.enqueued_at, j.run_at, j.touched_at, j.reason, j.errors,
       k.data, k.done, k.total, k.at, u.rerun,
       EXISTS (SELECT 1 FROM windlass_pass p
                WHERE p.job = coalesce(j.id, j.pos) AND p.gate LIKE 'order:%')
  FROM windlass_job j JOIN windlass_lane l ON l.id = j.lane
  LEFT JOIN windlass_checkpoint k ON k.job = coalesce(j.id, j.pos)
  LEFT JOIN windlass_unique u ON u.key = j.options ->> '$.unique_key' AND u.job = coalesce(j.id, j.pos)

-- ── closing ────────────────────────────────────────────────────────────────────────────────────────────────

-- :identity
SELECT identity FROM windlass_schema;

-- :closed
SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name = 'windlass_moved_job';

-- :unsettled
SELECT count(*) FROM windlass_awaited;

-- :alive
SELECT count(*) FROM windlass_worker WHERE alive;

-- :counts  from the counters of lanes
SELECT 'ready', sum(ready + held) FROM windlass_lane
UNION ALL SELECT 'running', sum(running) FROM windlass_lane
UNION ALL SELECT 'scheduled', sum(scheduled) FROM windlass_lane
UNION ALL SELECT 'retrying', sum(retrying) FROM windlass_lane
UNION ALL SELECT 'dead', sum(dead) FROM windlass_lane
UNION ALL SELECT 'waiting', count(*) FROM windlass_parent WHERE finished_at IS NULL;

-- ── jobs ───────────────────────────────────────────────────────────────────────────────────────────────────

-- :waiting  in the order of lanes and waiting lists
{moved}
 WHERE j.pos > ? AND j.state IN (2, 3, 7, 8, 9) AND j.options ->> '$.part.parent' IS NULL
   AND NOT EXISTS (SELECT 1 FROM windlass_after a WHERE a.job = coalesce(j.id, j.pos))
 ORDER BY j.pos LIMIT ?;

-- :after  in the order of their enqueues: a job comes after older ones
{moved}
 WHERE j.number > ? AND j.state > 4 AND j.state = 7 AND j.run_at IS NULL
   AND EXISTS (SELECT 1 FROM windlass_after a WHERE a.job = coalesce(j.id, j.pos))
 ORDER BY j.number LIMIT ?;

-- :stream  of a job: the end of it that has so many characters, in order
SELECT position, n, run, attempt, at, events FROM (
    SELECT *, sum(length(events)) OVER (ORDER BY position DESC) AS size FROM windlass_stream WHERE job = ?)
WHERE size <= ? ORDER BY position;

-- :steps  of a job, in their order
SELECT name, result, code, attempt, at, until FROM windlass_step WHERE job = ? ORDER BY rowid;

-- :waits  of a job, in their order; whether it waits for them now
SELECT name, signal, at, until, shape, suspended FROM windlass_wait WHERE job = ? ORDER BY no;

-- :signals  that a job has not taken, in their order
SELECT name, value, at FROM windlass_signal WHERE job = ? ORDER BY no;

-- :signal_keys  idempotency keys of signals that a job was sent
SELECT substr(token, length(?1) + 2), until FROM windlass_signal_once
 WHERE token > ?1 || '/' AND token < ?1 || '0' ORDER BY token;

-- :bound  how many jobs have not ended that end a group, or get the results of others
SELECT count(*) FILTER (WHERE options ->> '$.group_end'),
       count(*) FILTER (WHERE options ->> '$.results' IS NOT NULL)
  FROM windlass_job WHERE state NOT IN (4, 5, 6) AND options IS NOT NULL;

-- :edges
SELECT {key}, a.run_at FROM windlass_after a
  JOIN windlass_job j
    ON j.pos = coalesce((SELECT m.pos FROM windlass_job m WHERE m.id = a.awaited), a.awaited)
 WHERE a.job = ? AND j.state NOT IN (4);

-- :dead
{moved}
 WHERE j.number > ? AND j.state = 5 AND j.options ->> '$.part.parent' IS NULL
   AND j.options ->> '$.group_end' IS NULL AND j.options ->> '$.results' IS NULL
   AND NOT EXISTS (SELECT 1 FROM windlass_parent p WHERE p.id = coalesce(j.id, j.pos))
 ORDER BY j.number LIMIT ?;

-- ── parents ────────────────────────────────────────────────────────────────────────────────────────────────

-- :parents  the next one; the dead only where they are asked for
SELECT number, id, state, parallel, tolerated, finalizer, final, final_state, created_at, finished_at
  FROM windlass_parent
 WHERE number > ? AND (finished_at IS NULL OR state = 5 AND ?) ORDER BY number LIMIT 1;

-- :one
{moved}
 WHERE j.pos = coalesce((SELECT m.pos FROM windlass_job m WHERE m.id = ?1), ?1);

-- :parts
SELECT number, state, size, span, job, attempt, claimed, records, error, data, done, goal, at
  FROM windlass_part WHERE parent = ? ORDER BY number;

-- ── what else there is ─────────────────────────────────────────────────────────────────────────────────────

-- :keys
SELECT i.key, i.at, {key} FROM windlass_idempotency i
  LEFT JOIN windlass_job j ON j.pos = coalesce((SELECT m.pos FROM windlass_job m WHERE m.id = i.job), i.job)
 WHERE i.key > ? ORDER BY i.key LIMIT ?;

-- :deaths
SELECT key, last, deaths FROM windlass_key_death;

-- :last_jobs  of schedules
SELECT s.name, {key} FROM windlass_schedule s
  JOIN windlass_job j
    ON j.pos = coalesce((SELECT m.pos FROM windlass_job m WHERE m.id = s.last_job), s.last_job);
