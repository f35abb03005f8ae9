-- Cancels a job that is no parent; the answers are those of cancel. Callers: cancel, cancel_parent. Lock: the lane of a
-- waiting job, until the transaction ends.
-- A job that ran when end_waiting looked may wait again by now, for its next attempt: then it is ended there. One that
-- has become a parent meanwhile is left to promote, which hears of the request: its row must not be locked after a lane.
CREATE OR REPLACE FUNCTION windlass.cancel_job(p_job bigint) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    p record;
BEGIN
    LOOP
        IF windlass.end_waiting(p_job, 'cancelled') THEN
            RETURN 'cancelled';
        END IF;
        SELECT * INTO p FROM windlass.locate(p_job);
        IF FOUND AND p.kind IS NULL AND p.claim IS NOT NULL
           OR EXISTS (SELECT FROM windlass.parent x WHERE x.id = p_job AND x.state = 'waiting') THEN
            INSERT INTO windlass.cancel_request (job, at) VALUES (p_job, windlass.now()) ON CONFLICT DO NOTHING;
            RETURN 'requested';
        ELSIF p.kind IS NOT NULL OR EXISTS (SELECT FROM windlass.dead d WHERE d.id = p_job)
           OR EXISTS (SELECT FROM windlass.parent x WHERE x.id = p_job) THEN
            RETURN 'finished';
        ELSIF NOT windlass.is_unfinished(p_job) THEN
            RETURN 'not_found';
        END IF;
    END LOOP;
END $$;
