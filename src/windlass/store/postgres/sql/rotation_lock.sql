-- Holds the rotation for one step and checks that it is still about this victim. Callers: the other rotation
-- functions. Lock: the rotation row, until the transaction ends.
CREATE OR REPLACE FUNCTION windlass.rotation_lock(p_victim smallint) RETURNS windlass.rotation
LANGUAGE plpgsql AS $$
DECLARE
    r windlass.rotation;
BEGIN
    PERFORM windlass.require_read_committed();
    SELECT * INTO r FROM windlass.rotation FOR UPDATE;
    IF r.victim IS DISTINCT FROM p_victim
       OR p_victim = pg_sequence_last_value('windlass.segment_current'::regclass) THEN
        RAISE EXCEPTION 'segment % is not being reclaimed any more', p_victim USING ERRCODE = 'WL008';
    END IF;
    RETURN r;
END $$;
