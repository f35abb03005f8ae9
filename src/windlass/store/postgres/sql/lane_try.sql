-- The lane to offer in, as of lane_sure, or NULL where it has yet to be declared and somebody's open transaction is about to do
-- that, or holds its queue: whoever asks goes on with the rest, and comes back for it [S2].
-- Callers: the store before it enqueues, promote, admit_ring, admit_gate, may_end. Lock: those of declare_lane where it must, each
-- waited for 20 ms at most.
CREATE OR REPLACE FUNCTION windlass.lane_try(p_queue text, p_priority smallint) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    v_lane   int := windlass.lane_for(p_queue, p_priority);
    v_before text := current_setting('lock_timeout');
BEGIN
    IF v_lane IS NULL THEN
        BEGIN
            PERFORM set_config('lock_timeout', '20ms', true);
            v_lane := windlass.lane_sure(p_queue, p_priority);
            PERFORM set_config('lock_timeout', v_before, true);
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
    END IF;
    RETURN v_lane;
END $$;
