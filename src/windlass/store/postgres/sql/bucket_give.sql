-- Gives back tokens that were taken and not used; a bucket never holds more than its burst [F1]. Callers: give_tokens.
-- Lock: the bucket's row until the transaction ends. The same as Bucket.give_back in windlass.core.
CREATE OR REPLACE FUNCTION windlass.bucket_give(
    p_budget text, p_key text, p_n int, p_now float8 DEFAULT NULL, p_age float8 DEFAULT 0) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    b windlass.budget;
    k windlass.bucket;
BEGIN
    k := windlass.bucket_lock(p_budget, p_key);
    SELECT * INTO b FROM windlass.budget x WHERE x.name = p_budget;
    IF FOUND AND k.budget IS NOT NULL THEN
        k := windlass.bucket_at(b, k, windlass.epoch(p_now));
        UPDATE windlass.bucket x
           SET tokens = least(b.burst, k.tokens + CASE WHEN windlass.epoch(p_now) < k.blocked_until THEN 0
                                                       ELSE greatest(0, p_n - b.rate * greatest(0, p_age)) END),
                at = k.at, blocked_until = k.blocked_until, drains = k.drains
         WHERE x.budget = p_budget AND x.key = p_key;
    END IF;
END $$;
