-- Marks a lane as idle, so that the next enqueue notifies, and says whether it is: 'empty' or 'pending'.
-- Callers: claim_take. Lock: the lane's, held by the caller.
-- The worker sets the mark, then reads the position; a producer draws its number, then reads the mark. One of
-- the two sees the other, so no wake-up is lost [rule 10]. The mark is a sequence: it obeys no transaction.
CREATE OR REPLACE FUNCTION windlass.mark_idle(p_lane windlass.lane, p_hi bigint, p_holes bigint) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    IF pg_sequence_last_value(p_lane.idle) = 0 THEN
        PERFORM setval(p_lane.idle, 1, true);
    END IF;
    IF p_holes > 0 OR coalesce(pg_sequence_last_value(p_lane.position), 0) > p_hi THEN
        RETURN 'pending';
    END IF;
    RETURN 'empty';
END $$;
