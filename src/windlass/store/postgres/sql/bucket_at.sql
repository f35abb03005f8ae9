-- A bucket as it stands at a moment: what has grown since, and the drains of the whole budget that it has not taken in yet
-- [F1]. Where the clock has gone back by more than a second it goes on from there, and its pauses with it. The same as
-- Bucket.refilled and Bucket.drained in windlass.core. Callers: the functions of budgets, the store's readings. Lock: none.
CREATE OR REPLACE FUNCTION windlass.bucket_at(b windlass.budget, k windlass.bucket, p_now float8) RETURNS windlass.bucket
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF k.at > p_now + 1 THEN
        k.blocked_until := greatest(0, k.blocked_until - (k.at - p_now));
        k.at := p_now;
    END IF;
    IF k.drains < b.drains THEN
        IF b.drained_at > p_now + 1 THEN
            b.drained_until := b.drained_until - (b.drained_at - p_now);
            b.drained_at := p_now;
        END IF;
        k.blocked_until := greatest(k.blocked_until, b.drained_until);
        k.at := greatest(k.at, b.drained_at);
        k.tokens := 0;
        k.drains := b.drains;
    END IF;
    k.tokens := least(b.burst, k.tokens + b.rate * greatest(0, p_now - greatest(k.at, k.blocked_until)));
    k.at := greatest(k.at, p_now);
    RETURN k;
END $$;
