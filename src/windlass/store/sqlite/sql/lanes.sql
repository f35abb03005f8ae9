-- Lanes. Called by lanes.Lanes under the write lock.

-- :named
SELECT id, queue, priority, seq, hi, served, ready, held, running, scheduled, retrying, dead
FROM windlass_lane WHERE queue = ? AND priority = ?;

-- :numbered
SELECT id, queue, priority, seq, hi, served, ready, held, running, scheduled, retrying, dead
FROM windlass_lane WHERE id = ?;

-- :create  lanes are never removed, so the highest number is the last one given out
INSERT INTO windlass_lane (id, queue, priority)
SELECT max(id) + 1, ?, ? FROM windlass_lane
RETURNING id, queue, priority, seq, hi, served, ready, held, running, scheduled, retrying, dead;

-- :save
UPDATE windlass_lane
SET seq = ?, hi = ?, served = ?, ready = ?, held = ?, running = ?, scheduled = ?, retrying = ?, dead = ?
WHERE id = ?;

-- :declare_queue  what is not named here has its default in the table
INSERT INTO windlass_queue (name, dead_retention, window) VALUES (?, ?, ?) ON CONFLICT DO NOTHING;
