-- A bucket as it stands at a moment: what has grown since, and the drains of the whole budget that it has not taken in yet
-- [F1]. The same as Bucket.refilled and Bucket.drained in windlass.core. Callers: the functions of budgets, the store's
-- readings. Lock: none.
CREATE OR REPLACE FUNCTION windlass.bucket_at(b windlass.budget, k windlass.bucket, p_now float8) RETURNS windlass.bucket
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF k.drains < b.drains THEN
        k.blocked_until := greatest(k.blocked_until, b.drained_until);
        k.at := greatest(k.at, k.blocked_until);
        k.tokens := 0;
        k.drains := b.drains;
    END IF;
    k.tokens := least(b.burst, k.tokens + b.rate * greatest(0, p_now - k.at));
    k.at := greatest(k.at, p_now);
    RETURN k;
END $$;
