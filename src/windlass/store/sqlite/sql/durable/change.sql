-- Changing a waiting job in place. Called by change under the write lock, and :rewrite by transitions.

-- :run_at
SELECT run_at FROM windlass_job WHERE pos = ?;

-- :comes_after  whether it waits for others
SELECT 1 FROM windlass_after WHERE job = ? LIMIT 1;

-- :wait_until  those that wait for others have their time with them
UPDATE windlass_after SET run_at = ? WHERE job = ?;

-- :payload
SELECT payload FROM windlass_job WHERE pos = ?;

-- :look_at
UPDATE windlass_expiry SET at = ? WHERE job = ?;
