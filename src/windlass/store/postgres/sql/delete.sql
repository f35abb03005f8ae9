-- Removes a job: 'deleted', 'requested' (it runs; its cancel was asked for) or 'not_found' [O5].
-- Callers: users, the store. Lock: the lane of a waiting job, until the transaction ends; those of cancel_parent where it
-- is a parent. It looks again as cancel does. A parent that has ended goes at once, its parts with
-- the next steps of expire.
CREATE OR REPLACE FUNCTION windlass.delete(job bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    p        record;
    v_answer text;
BEGIN
    LOOP
        v_answer := windlass.cancel_parent(delete.job);
        IF v_answer = 'finished' THEN
            PERFORM windlass.drop_parent(delete.job);
            RETURN 'deleted';
        ELSIF v_answer IS NOT NULL THEN
            RETURN v_answer;
        ELSIF windlass.end_waiting(job, 'deleted') THEN
            RETURN 'deleted';
        END IF;
        DELETE FROM windlass.dead d WHERE d.id = delete.job;
        IF FOUND THEN
            RETURN 'deleted';
        END IF;
        SELECT * INTO p FROM windlass.locate(delete.job);
        IF FOUND AND p.kind IS NOT NULL THEN
            -- It has ended, so no claim will ever look at this row again.
            DELETE FROM windlass.ready r WHERE r.lane = (p.ready).lane AND r.seq = (p.ready).seq;
            IF FOUND THEN
                RETURN 'deleted';
            END IF;
            -- A rotation has just moved it; look again.
        ELSIF FOUND AND p.claim IS NOT NULL THEN
            INSERT INTO windlass.cancel_request (job, at) VALUES (delete.job, windlass.now()) ON CONFLICT DO NOTHING;
            RETURN 'requested';
        ELSIF NOT windlass.is_unfinished(delete.job) THEN
            RETURN 'not_found';
        END IF;
    END LOOP;
END $$;
