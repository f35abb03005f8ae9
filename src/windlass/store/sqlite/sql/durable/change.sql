-- Changing a waiting job in place. Called by change under the write lock, and :rewrite by transitions.

-- :run_at
SELECT run_at FROM windlass_job WHERE pos = ?;

-- :comes_after  whether it waits for others
SELECT 1 FROM windlass_after WHERE job = ? LIMIT 1;

-- :wait_until  those that wait for others have their time with them
UPDATE windlass_after SET run_at = ? WHERE job = ?;

-- :put_off_waits  those of a job that waits for signals
UPDATE windlass_wait SET until = max(until, ?1) WHERE job = ?2 AND suspended AND until IS NOT NULL;

-- :payload
SELECT payload FROM windlass_job WHERE pos = ?;

-- :look_at
UPDATE windlass_expiry SET at = ? WHERE job = ?;
