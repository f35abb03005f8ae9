-- The number of a lane's next claim row. It must lie above the cursor's, or the newest row would not be the cursor and
-- jobs would be given out twice [rule 2]. Callers: claim_take, take_ahead, rotation_touch. Lock: the lane's, held by
-- the caller.
CREATE OR REPLACE FUNCTION windlass.next_claim(c windlass.claim) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    IF pg_sequence_last_value('windlass.claim_id'::regclass) < c.id THEN
        RAISE EXCEPTION 'claim numbers stand at %, below the cursor of lane %, claim %',
            pg_sequence_last_value('windlass.claim_id'::regclass), c.lane, c.id
            USING ERRCODE = 'WL004', HINT = 'The sequence claim_id was set back: SELECT windlass.adopt() mends it.';
    END IF;
    RETURN nextval('windlass.claim_id');
END $$;
