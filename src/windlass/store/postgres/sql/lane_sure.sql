-- The lane to offer in, declared if need be. Callers: lane_try, offer_held, offer_one, offer_parts, end_waiting, end_aside: never a
-- producer's transaction. Lock: those of declare_lane where it must.
CREATE OR REPLACE FUNCTION windlass.lane_sure(p_queue text, p_priority smallint) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    v_lane int := windlass.lane_for(p_queue, p_priority);
BEGIN
    IF v_lane IS NULL THEN
        PERFORM windlass.check_epoch();
        PERFORM windlass.declare_lane(p_queue, p_priority);
        v_lane := windlass.lane_for(p_queue, p_priority);
    END IF;
    RETURN v_lane;
END $$;
