-- How many jobs wait in a lane that anybody can see: as lane_depth, but without numbers of transactions that have not committed,
-- and without burnt ones, so that nobody is refused, or kept aside, for what somebody's open transaction may yet roll back [S2].
-- Up to p_enough are counted where that is no more than 1,000, or where the lane is no deeper. Of more, 200 places at equal
-- distances are looked at, and their share counts: that costs the same however deep the lane is, and is wrong by half a percent
-- for each stretch of numbers that cannot be seen. Long stretches that were taken ahead are left out before: most of all what a new
-- epoch has passed over, half a billion and more, in which no place that is looked at would be a job's [S3].
-- Callers: admit_ring, queue_load. Lock: none.
CREATE OR REPLACE FUNCTION windlass.lane_seen(p_lane int, p_enough bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    c          windlass.claim := windlass.cursor_of(p_lane);
    v_ahead    int8multirange := windlass.gather(c.ahead, c.ahead_spilled);
    v_position bigint := (SELECT coalesce(pg_sequence_last_value(l.position), 0) FROM windlass.lane l WHERE l.id = p_lane);
    v_drawn    int8multirange := int8multirange(int8range(c.hi + 1, greatest(v_position, c.hi) + 1));
    v_n        bigint;
    v_seen     bigint;
BEGIN
    v_drawn := v_drawn - coalesce((SELECT range_agg(a) FROM unnest(v_ahead) AS a WHERE upper(a) - lower(a) > (v_position - c.hi) / 400), '{}');
    v_n := windlass.size_of(v_drawn);
    IF p_enough <= 1000 OR v_n <= 1000 THEN
        v_seen := (SELECT count(*) FROM (SELECT FROM windlass.ready r WHERE r.lane = p_lane AND r.seq > c.hi AND NOT r.seq <@ v_ahead
                                          ORDER BY r.seq LIMIT CASE WHEN v_n > 1000 THEN p_enough END) AS x);
    END IF;
    IF v_n > 1000 AND v_seen >= p_enough IS NOT FALSE THEN
        v_seen := greatest(v_seen, (
            SELECT count(*) * v_n / 200
              FROM (SELECT lower(d) AS first, upper(d) - lower(d) AS n,
                           (sum(upper(d) - lower(d)) OVER (ORDER BY lower(d)))::bigint AS through FROM unnest(v_drawn) AS d) AS s
              JOIN LATERAL (SELECT (i * 2 + 1) * v_n / 400 AS place FROM generate_series(0, 199) AS i) AS l
                ON l.place >= s.through - s.n AND l.place < s.through
             CROSS JOIN LATERAL (SELECT FROM windlass.ready r
                                  WHERE r.lane = p_lane AND r.seq = s.first + l.place - (s.through - s.n)
                                    AND NOT r.seq <@ v_ahead OFFSET 0) AS x));
    END IF;
    IF c.holes > 0 AND v_seen < p_enough THEN
        v_seen := v_seen + (
            SELECT count(*) FROM (
                SELECT FROM unnest(windlass.gather(coalesce(c.young, '{}') + coalesce(c.old, '{}'), c.spilled)) AS hole (span)
                 CROSS JOIN LATERAL (SELECT FROM windlass.ready r
                                      WHERE r.lane = p_lane AND r.seq >= lower(hole.span) AND r.seq < upper(hole.span)
                                      LIMIT 1000) AS x
                 LIMIT least(p_enough - v_seen, 1000)) AS y);
    END IF;
    RETURN v_seen;
END $$;
