-- Seconds until a bucket may grant p_n tokens; infinite where it never will: an unknown budget, more than its burst, no rate
-- [F1]. Callers: gate_wait, take_tokens. Lock: none.
-- The same as Bucket.wait in windlass.core, and no sooner than its breaker allows [F7].
CREATE OR REPLACE FUNCTION windlass.bucket_wait(p_budget text, p_key text, p_n int, p_now float8 DEFAULT NULL) RETURNS float8
LANGUAGE plpgsql AS $$
DECLARE
    b       windlass.budget;
    k       windlass.bucket;
    v_now   float8 := windlass.epoch(p_now);
    v_grown float8 := 0;
BEGIN
    SELECT * INTO b FROM windlass.budget x WHERE x.name = p_budget;
    IF NOT FOUND OR p_n > b.burst THEN
        RETURN 'Infinity';
    END IF;
    k := windlass.bucket_at(b, windlass.bucket_of(b, p_key), v_now);
    IF k.tokens < p_n THEN
        -- It grows from then on.
        v_grown := CASE WHEN b.rate > 0 THEN (p_n - k.tokens) / b.rate ELSE 'Infinity' END
                 + greatest(0, k.at - v_now, k.blocked_until - v_now);
    END IF;
    RETURN greatest(v_grown, k.blocked_until - v_now, 0.001, windlass.breaker_left(b, v_now));
END $$;
