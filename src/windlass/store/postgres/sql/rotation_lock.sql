-- Holds the rotation for one step and checks that it is still the same turn. Callers: rotation_seal,
-- rotation_touch, rotation_judge, rotation_move, rotation_move_failures, rotation_reclaim. Lock: the rotation
-- row, until the transaction ends.
CREATE OR REPLACE FUNCTION windlass.rotation_lock(p_turn bigint) RETURNS windlass.rotation
LANGUAGE plpgsql AS $$
DECLARE
    r windlass.rotation;
BEGIN
    PERFORM windlass.require_read_committed();
    SELECT * INTO r FROM windlass.rotation FOR UPDATE;
    IF r.turn IS DISTINCT FROM p_turn OR r.victim IS NULL
       OR r.victim = pg_sequence_last_value('windlass.segment_current'::regclass) THEN
        RAISE EXCEPTION 'rotation % is over', p_turn USING ERRCODE = 'WL008';
    END IF;
    RETURN r;
END $$;
