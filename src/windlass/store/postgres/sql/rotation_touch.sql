-- Carries a lane's cursor out of the victim, if it is there. Callers: the store's rotate, for each lane, each in a
-- transaction of its own, after the seal. Lock: the rotation row, then the lane.
-- Claims read the current segment under the lane lock. So after this no claim row of the lane can go into the
-- victim, whether or not there was a cursor to carry.
CREATE OR REPLACE FUNCTION windlass.rotation_touch(p_turn bigint, p_lane int) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    r windlass.rotation;
    c windlass.claim;
BEGIN
    r := windlass.rotation_lock(p_turn);
    PERFORM windlass.lane_lock(p_lane);
    c := windlass.cursor_of(p_lane);
    IF c.segment <> r.victim THEN
        RETURN false;
    END IF;
    c.segment := pg_sequence_last_value('windlass.segment_current'::regclass);
    c.id := windlass.next_claim(c);
    c.worker := 0;
    c.n := 0;
    c.late := false;
    c.seqs := '{}';
    c.snapshot := NULL;
    INSERT INTO windlass.claim SELECT c.*;
    RETURN true;
END $$;
