-- How many jobs wait in a lane, in O(1): position - hi + holes - ahead. Numbers drawn by transactions that have not
-- committed, and burnt ones that no claim has passed yet, count until then. Callers: admit_ring, depth, lane_heads,
-- lane_tasks, queue_load, of which readers call some (with the owner's rights, since a lane declared after a grant has
-- a sequence of its own). Lock: none.
CREATE OR REPLACE FUNCTION windlass.lane_depth(p_lane int) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    c          windlass.claim := windlass.cursor_of(p_lane);
    v_position regclass;
BEGIN
    -- The primary logs a sequence 32 numbers ahead, and a standby reads what was logged: there the newest row counts, or the last
    -- number that was taken ahead: what a new epoch has passed over has no rows.
    IF pg_is_in_recovery() THEN
        RETURN greatest((SELECT r.seq FROM windlass.ready r WHERE r.lane = p_lane AND r.seq > c.hi ORDER BY r.seq DESC LIMIT 1),
                        upper(windlass.gather(c.ahead, c.ahead_spilled)) - 1, c.hi) - c.hi + c.holes - c.ahead_n;
    END IF;
    SELECT position INTO v_position FROM windlass.lane WHERE id = p_lane;
    RETURN coalesce(pg_sequence_last_value(v_position), 0) - c.hi + c.holes - c.ahead_n;
END $$;
