-- Lanes, and the unfinished jobs of claims. Called by lanes under the write lock.

-- =lane  the columns of lanes.Lane
id, queue, priority, needs, seq, hi, served, ready, held, running, scheduled, retrying, dead

-- :named
SELECT {lane}
FROM windlass_lane WHERE queue = ? AND priority = ? AND needs = ?;

-- :numbered
SELECT {lane}
FROM windlass_lane WHERE id = ?;

-- :create  lanes are never removed, so the highest number is the last one given out
INSERT INTO windlass_lane (id, queue, priority, needs)
SELECT max(id) + 1, ?, ?, ? FROM windlass_lane
RETURNING {lane};

-- :save
UPDATE windlass_lane
SET seq = ?, hi = ?, served = ?, ready = ?, held = ?, running = ?, scheduled = ?, retrying = ?, dead = ?
WHERE id = ?;

-- :declare_queue  what is not named here has its default in the table
INSERT INTO windlass_queue (name, dead_retention, window) VALUES (?, ?, ?) ON CONFLICT DO NOTHING;

-- :covering  the claim that covers a place [I2]
SELECT lane, lo, hi, id FROM windlass_claim WHERE lane = ? AND hi >= ? ORDER BY hi LIMIT 1;

-- :finished
UPDATE windlass_claim SET unfinished = unfinished - ? WHERE id = ?;
