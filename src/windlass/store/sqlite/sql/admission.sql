-- Whether queues take new jobs. Called by admission under the write lock.

-- :limits  of a queue that has any, and how deep it is
SELECT q.max_depth, q.shed_depth, q.shed_wait, q.shed_latency, q.pressure,
       (SELECT total(l.ready + l.held) FROM windlass_lane l WHERE l.queue = q.name)
FROM windlass_queue q WHERE q.name = ?;

-- :latency
SELECT latency FROM windlass_observed WHERE at > ?;

-- :observe
UPDATE windlass_observed SET latency = ?, at = ?;

-- :press
UPDATE windlass_queue SET pressure = ? WHERE name = ?;

-- :count_shed
UPDATE windlass_queue SET shed = shed + ? WHERE name = ?;

-- :count_refused
UPDATE windlass_queue SET refused = refused + ? WHERE name = ?;
