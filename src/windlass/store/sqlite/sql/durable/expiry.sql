-- Jobs that have waited too long. Called by expiry under the write lock.

-- :next_expired
SELECT job FROM windlass_expiry WHERE at <= ? ORDER BY at LIMIT ?;

-- :look_later
UPDATE windlass_expiry SET at = ? WHERE job = ?;

-- :forget_deadline
DELETE FROM windlass_expiry WHERE job = ?;
