-- Locks the row of a bucket, which is made where the key is new. Callers: bucket_take, bucket_try, bucket_give,
-- drain_budget.
-- Lock: that row until the transaction ends. Who locks several takes them in the order of budget and key, and the row of a
-- budget after those of its buckets.
-- A new one is made full, as of long ago: then drains that it has not seen count as for any other.
CREATE OR REPLACE FUNCTION windlass.bucket_lock(p_budget text, p_key text) RETURNS windlass.bucket
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    k windlass.bucket;
BEGIN
    LOOP
        SELECT * INTO k FROM windlass.bucket x WHERE x.budget = p_budget AND x.key = p_key FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO windlass.bucket (budget, key, tokens, at)
        SELECT b.name, p_key, b.burst, 0 FROM windlass.budget b WHERE b.name = p_budget ON CONFLICT DO NOTHING;
        EXIT WHEN NOT FOUND AND NOT EXISTS (SELECT FROM windlass.budget b WHERE b.name = p_budget);
    END LOOP;
    RETURN k;
END $$;
