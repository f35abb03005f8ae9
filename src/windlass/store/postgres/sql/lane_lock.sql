-- The lane lock. Callers: lock_lanes_of, end_aside, take_ahead, rotation_touch; claim takes the
-- lock itself.
-- Lock: advisory, (oid of the lane table, lane), until the transaction ends.
-- A claim row is a cursor; written from an old snapshot it would set the lane back, hence READ COMMITTED only.
CREATE OR REPLACE FUNCTION windlass.lane_lock(p_lane int) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM windlass.require_read_committed();
    PERFORM pg_advisory_xact_lock(windlass.lock_space(), p_lane);
END $$;
