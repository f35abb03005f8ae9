-- The cluster. Called by cluster: `slots_of` and `serving` by readers, the rest under the write lock.

-- :slots_of
SELECT worker, queue, slots FROM windlass_slot WHERE worker IN (SELECT value FROM json_each(?));

-- :serving
SELECT queues FROM windlass_worker WHERE alive;

-- :slots
SELECT worker, queue, slots FROM windlass_slot;

-- :take_slots
DELETE FROM windlass_slot WHERE worker = ? AND queue = ?;

-- :give_slots
INSERT INTO windlass_slot (worker, queue, slots) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET slots = excluded.slots;
