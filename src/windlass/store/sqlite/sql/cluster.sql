-- The cluster. Called by cluster: `slots_of` and `serving` by readers, the rest under the write lock.

-- ── terms ──────────────────────────────────────────────────────────────────────────────────────────────────

-- :term
SELECT number, holder, until FROM windlass_term;

-- :lead
UPDATE windlass_term SET number = ?, holder = ?, until = ?;

-- :resign
UPDATE windlass_term SET holder = NULL, until = 0 WHERE holder = ?;

-- ── slots ──────────────────────────────────────────────────────────────────────────────────────────────────

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

-- ── chores ─────────────────────────────────────────────────────────────────────────────────────────────────

-- :begin_chore  no row is touched where it was begun a moment ago
INSERT INTO windlass_chore (name, at) VALUES (?1, ?2)
ON CONFLICT (name) DO UPDATE SET at = excluded.at WHERE at <= ?2 - ?3 OR at > ?2 + 1;
