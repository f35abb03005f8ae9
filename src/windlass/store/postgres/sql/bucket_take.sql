-- Takes p_n tokens of a bucket, all or none, or with NOT p_all as many times p_each as there are, up to p_n; answers with how
-- many [F1]. Half-open it grants once, p_n or p_each, which is the probe [F7]. An unknown budget grants nothing.
-- Callers: claim_count, claim_needs, claim_plenty, take_tokens. Lock: the bucket's row until the transaction ends; half-open
-- the budget's after it, by trying only: who holds a bucket must not wait for one who may wait for that bucket, and another's
-- probe or news of it means no. The time is read with the lock held. A claim sorts its buckets by budget and key before it
-- takes.
-- The same as Bucket.take, Breaker.allows and Breaker.granted in windlass.core.
CREATE OR REPLACE FUNCTION windlass.bucket_take(
    p_budget text, p_key text, p_n int, p_all boolean, p_each int DEFAULT 1, p_now float8 DEFAULT NULL)
RETURNS int
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    b     windlass.budget;
    k     windlass.bucket;
    v_now float8;
    v_n   int;
BEGIN
    k := windlass.bucket_lock(p_budget, p_key);
    -- Read after the lock: set_budget holds all bucket rows until its new rate is to be seen.
    SELECT * INTO b FROM windlass.budget x WHERE x.name = p_budget;
    IF NOT FOUND OR k.budget IS NULL THEN
        RETURN 0;
    END IF;
    v_now := windlass.epoch(p_now);
    k := windlass.bucket_at(b, k, v_now);
    IF v_now < k.blocked_until THEN
        RETURN 0;
    END IF;
    v_n := CASE WHEN p_all THEN p_n ELSE floor(least(p_n, k.tokens))::int / p_each * p_each END;
    IF windlass.breaker_state(b, v_now) <> 'closed' THEN
        v_n := CASE WHEN p_all THEN v_n ELSE least(v_n, p_each) END;
        IF windlass.breaker_left(b, v_now) > 0 OR v_n < 1 OR k.tokens < v_n THEN
            RETURN 0;
        END IF;
        -- One probe over all of its buckets: whoever locks the row first and finds nobody's out.
        PERFORM FROM windlass.budget x WHERE x.name = p_budget AND windlass.breaker_left(x, v_now) = 0 AND x.openings > 0
            FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN 0;
        END IF;
        UPDATE windlass.budget x SET probing = true, until = v_now + windlass.breaker_length(x.breaker_pause, x.openings)
         WHERE x.name = p_budget;
    ELSIF v_n < 1 OR k.tokens < v_n THEN
        RETURN 0;
    END IF;
    UPDATE windlass.bucket x
       SET tokens = k.tokens - v_n, at = k.at, blocked_until = k.blocked_until, drains = k.drains
     WHERE x.budget = p_budget AND x.key = p_key;
    RETURN v_n;
END $$;
