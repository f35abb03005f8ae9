-- How the breaker of a budget stands at a moment: closed, open or half-open [F7]. The same as Breaker.state in windlass.core.
-- Callers: bucket_take, bucket_tokens, gate_wait, tell_budget, the store's readings. Lock: none.
CREATE OR REPLACE FUNCTION windlass.breaker_state(b windlass.budget, p_now float8) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN b.openings = 0 OR b.breaker = 0 THEN 'closed'
                WHEN b.probing OR windlass.breaker_left(b, p_now) = 0 THEN 'half-open' ELSE 'open' END
$$;
