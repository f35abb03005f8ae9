-- Steering. Called by steering under the write lock.

-- :request_cancel  the worker that runs the job has to hear of it
UPDATE windlass_job
SET state = 3, cancel = (SELECT worker FROM windlass_claim WHERE lane = ? AND hi >= ? ORDER BY hi LIMIT 1)
WHERE pos = ?;

-- :take_key
INSERT INTO windlass_unique (key, job) VALUES (?, ?) ON CONFLICT DO NOTHING;
