-- For how many seconds a breaker stays open, or waits for its probe: twice as long each time, at most 16 times [F7]. The same
-- as in Breaker in windlass.core. Callers: breaker_left, bucket_take, tell_budget. Lock: none.
CREATE OR REPLACE FUNCTION windlass.breaker_length(p_pause float8, p_openings int) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_pause * (1 << least(greatest(p_openings - 1, 0), 4))
$$;
