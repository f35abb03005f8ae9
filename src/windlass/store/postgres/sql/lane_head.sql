-- Since when the longest waiting of a lane's first p_first jobs has been ready, or NULL. A fair job brings its wait along, so
-- the first of the lane need not be the oldest. Callers: depth, lane_heads, queue_load. Lock: none.
-- Late jobs in holes are not looked at: they are claimed within moments.
CREATE OR REPLACE FUNCTION windlass.lane_head(p_lane int, p_first int) RETURNS timestamptz
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    c       windlass.claim := windlass.cursor_of(p_lane);
    v_ahead int8multirange := windlass.gather(c.ahead, c.ahead_spilled);
BEGIN
    RETURN (SELECT min(f.offered_at)
              FROM (SELECT r.offered_at FROM windlass.ready r
                     WHERE r.lane = p_lane AND r.seq > c.hi AND NOT r.seq <@ v_ahead ORDER BY r.seq LIMIT p_first) AS f);
END $$;
