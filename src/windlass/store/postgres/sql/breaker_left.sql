-- Seconds until the breaker of a budget lets it grant something again; 0 where it may now [F7]. A pause that is longer than it
-- was meant to be was told another time: the clock has gone back since, and it is over. The same as Breaker.left in
-- windlass.core. Callers: breaker_state, bucket_take, bucket_tokens, bucket_wait, the store's readings. Lock: none.
CREATE OR REPLACE FUNCTION windlass.breaker_left(b windlass.budget, p_now float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN b.openings > 0 AND b.breaker > 0 AND b.until > p_now
                     AND b.until - p_now <= windlass.breaker_length(b.breaker_pause, b.openings) + 1
                THEN b.until - p_now ELSE 0 END
$$;
