-- The unfinished jobs of claims. Called by leases.Leases under the write lock.

-- :covering  the claim that covers a place [I2]
SELECT lane, lo, hi, id FROM windlass_claim WHERE lane = ? AND hi >= ? ORDER BY hi LIMIT 1;

-- :left
UPDATE windlass_claim SET unfinished = unfinished - ? WHERE id = ?;
