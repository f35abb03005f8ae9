-- How many jobs wait in a lane, in O(1): position − hi + holes − ahead. Numbers drawn by transactions that have not
-- committed, and burnt ones that no claim has passed yet, count until then. Callers: admit, depth. Lock: none.
CREATE OR REPLACE FUNCTION windlass.lane_depth(p_lane int) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    c          windlass.claim := windlass.cursor_of(p_lane);
    v_position regclass;
BEGIN
    SELECT position INTO v_position FROM windlass.lane WHERE id = p_lane;
    RETURN coalesce(pg_sequence_last_value(v_position), 0) - c.hi + c.holes - c.ahead_n;
END $$;
