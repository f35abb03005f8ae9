-- Keys. Called by enqueue under the write lock.

-- :first  the job that came first with this idempotency key, while the key is remembered
SELECT job FROM windlass_idempotency WHERE key = ? AND at > ?;

-- :remember
INSERT INTO windlass_idempotency (key, job, at) VALUES (?, ?, ?)
ON CONFLICT (key) DO UPDATE SET job = excluded.job, at = excluded.at;

-- :holder
SELECT job FROM windlass_unique WHERE key = ?;

-- :set_rerun
UPDATE windlass_unique SET rerun = ? WHERE key = ?;
