-- Seconds until a queue gives out jobs again; 0 where it does not cool [O3]. No cool-down is longer than the queue's cap: one that
-- is was written before the clock went back, and is over. Callers: claim_take, lane_heads, throttle, the store's readings.
-- Lock: none.
CREATE OR REPLACE FUNCTION windlass.cools(q windlass.queue) RETURNS float8
LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN q.cool_until IS NULL THEN 0
                ELSE (SELECT CASE WHEN c.left_s BETWEEN 0 AND q.cool_cap + 1 THEN c.left_s ELSE 0 END
                        FROM (SELECT date_part('epoch', q.cool_until - windlass.now()) AS left_s) AS c) END
$$;
