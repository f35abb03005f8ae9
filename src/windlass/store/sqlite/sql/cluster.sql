-- The cluster. Called by cluster: `slots_of`, `serving`, `host_calls` and `to_cancel` by readers, the rest
-- under the write lock; `note_host_call` by every operation that hosts should know of.

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

-- ── calls to hosts ─────────────────────────────────────────────────────────────────────────────────────────

-- :note_host_call
UPDATE windlass_host_calls SET times = times + 1;

-- :host_calls
SELECT times FROM windlass_host_calls;

-- :to_cancel  the workers that hold jobs whose cancel is requested
SELECT DISTINCT cancel FROM windlass_job WHERE cancel > 0;

-- ── chores ─────────────────────────────────────────────────────────────────────────────────────────────────

-- :begin_chore  no row is touched where it was begun a moment ago
INSERT INTO windlass_chore (name, at) VALUES (?1, ?2)
ON CONFLICT (name) DO UPDATE SET at = excluded.at WHERE at <= ?2 - ?3 OR at > ?2 + 1;
