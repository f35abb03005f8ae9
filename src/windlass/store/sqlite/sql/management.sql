-- Management. Called by management: `queues` and `tasks` by readers, the rest under the write lock.

-- ── jobs ───────────────────────────────────────────────────────────────────────────────────────────────────

-- :request_cancel  the worker that runs the job must learn of it
UPDATE windlass_job
SET state = 3, cancel = (SELECT worker FROM windlass_claim WHERE lane = ? AND hi >= ? ORDER BY hi LIMIT 1)
WHERE pos = ?;

-- :take_key
INSERT INTO windlass_unique (key, job) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- ── queues ─────────────────────────────────────────────────────────────────────────────────────────────────

-- :queues
SELECT name, {queue}, throttles, cool_until, pressure, refused, shed, decided,
       (SELECT total(l.ready + l.held) FROM windlass_lane l WHERE l.queue = name) AS depth
FROM windlass_queue ORDER BY name;

-- :queue
SELECT name, {queue}, throttles, cool_until, pressure, refused, shed, decided,
       (SELECT total(l.ready + l.held) FROM windlass_lane l WHERE l.queue = name) AS depth
FROM windlass_queue WHERE name = ?;

-- :change_queue
UPDATE windlass_queue
SET ({queue}) = ({queue ?}), pressure = CASE WHEN ? THEN pressure ELSE 'none' END
WHERE name = ?;

-- :cool_queue
UPDATE windlass_queue SET throttles = throttles + 1, cool_until = ? WHERE name = ?;

-- :warm_queue  a success counts once the cool-down is over for a while; an operator's word counts at once
UPDATE windlass_queue SET throttles = 0, cool_until = 0
WHERE name = ? AND throttles > 0 AND (? OR cool_until <= ?);

-- ── tasks ──────────────────────────────────────────────────────────────────────────────────────────────────

-- :tasks
SELECT name, {task} FROM windlass_task ORDER BY name;

-- :task
SELECT name, {task} FROM windlass_task WHERE name = ?;

-- :keep_task
INSERT OR REPLACE INTO windlass_task (name, {task}) VALUES (?, {task ?});

-- :running_of_task  jobs of a task that run without a pass of this gate; never more run than workers can hold
SELECT j.pos, coalesce(j.id, j.pos)
FROM windlass_claim c
CROSS JOIN windlass_job j ON j.pos BETWEEN (c.lane << 44 | c.lo) AND (c.lane << 44 | c.hi)
  AND j.state IN (2, 3)
WHERE c.unfinished > 0 AND j.task = ?1
  AND NOT EXISTS (SELECT 1 FROM windlass_pass p WHERE p.job = coalesce(j.id, j.pos) AND p.gate = ?2);

-- :remove_task
DELETE FROM windlass_task WHERE name = ?;
