-- Queues. Called by queues: `all` by readers, the rest under the write lock.

-- :all
SELECT name, paused, max_workers, retention, dead_retention, window, safety_bound, backoff, backoff_base, backoff_cap,
       cool_base, cool_cap, concurrency, governor, rate_min, rate_max, max_depth, shed_depth, shed_wait, shed_latency,
       throttles, cool_until, pressure, refused, shed, decided,
       (SELECT total(l.ready + l.held) FROM windlass_lane l WHERE l.queue = name)
FROM windlass_queue ORDER BY name;

-- :named
SELECT name, paused, max_workers, retention, dead_retention, window, safety_bound, backoff, backoff_base, backoff_cap,
       cool_base, cool_cap, concurrency, governor, rate_min, rate_max, max_depth, shed_depth, shed_wait, shed_latency,
       throttles, cool_until, pressure, refused, shed, decided,
       (SELECT total(l.ready + l.held) FROM windlass_lane l WHERE l.queue = name)
FROM windlass_queue WHERE name = ?;

-- :change
UPDATE windlass_queue
SET paused = ?, max_workers = ?, retention = ?, dead_retention = ?, window = ?, safety_bound = ?, backoff = ?,
    backoff_base = ?, backoff_cap = ?, cool_base = ?, cool_cap = ?, concurrency = ?, governor = ?, rate_min = ?,
    rate_max = ?, max_depth = ?, shed_depth = ?, shed_wait = ?, shed_latency = ?,
    pressure = CASE WHEN ? THEN pressure ELSE 'none' END
WHERE name = ?;

-- :cool
UPDATE windlass_queue SET throttles = throttles + 1, cool_until = ? WHERE name = ?;

-- :warm  a success counts once the cool-down is over for a while; an operator's word counts at once
UPDATE windlass_queue SET throttles = 0, cool_until = 0 WHERE name = ? AND throttles > 0 AND (? OR cool_until <= ?);
