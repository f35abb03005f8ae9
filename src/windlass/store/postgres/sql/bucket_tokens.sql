-- How many whole tokens a bucket would grant now, to takers of p_each: 0 for an unknown budget, one that was drained or whose
-- breaker is open; half-open at most p_each, the probe's [F1] [F7]. Callers: claim_needs, claim_plenty, claim_room,
-- gate_tokens.
-- Lock: none.
CREATE OR REPLACE FUNCTION windlass.bucket_tokens(p_budget text, p_key text, p_each int DEFAULT 1, p_now float8 DEFAULT NULL)
RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    b     windlass.budget;
    k     windlass.bucket;
    v_now float8 := windlass.epoch(p_now);
BEGIN
    SELECT * INTO b FROM windlass.budget x WHERE x.name = p_budget;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    k := windlass.bucket_at(b, windlass.bucket_of(b, p_key), v_now);
    IF v_now < k.blocked_until OR windlass.breaker_left(b, v_now) > 0 THEN
        RETURN 0;
    END IF;
    RETURN floor(greatest(0, least(k.tokens, 1e9, CASE WHEN windlass.breaker_state(b, v_now) <> 'closed' THEN p_each END)));
END $$;
