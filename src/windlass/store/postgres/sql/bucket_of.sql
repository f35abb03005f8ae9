-- The row of a bucket; where it has none, the row it would have: full, but for drains. No row at all: no such budget.
-- Callers: bucket_tokens, bucket_wait, the store's readings. Lock: none.
CREATE OR REPLACE FUNCTION windlass.bucket_of(b windlass.budget, p_key text) RETURNS windlass.bucket
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    k windlass.bucket;
BEGIN
    SELECT * INTO k FROM windlass.bucket x WHERE x.budget = b.name AND x.key = p_key;
    IF NOT FOUND THEN
        k := ROW (b.burst, 0, 0, 0, b.name, p_key)::windlass.bucket;
    END IF;
    RETURN k;
END $$;
