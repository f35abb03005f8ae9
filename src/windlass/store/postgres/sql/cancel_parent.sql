-- Stops the releases of a parent and cancels those of its parts that are out [P9]: 'requested', or 'finished' where it
-- has ended. NULL: there is no such parent. Callers: cancel, delete. Lock: the parent's row, then the lanes of its parts, in
-- order. Nobody takes a parent's row who holds a lane, so that no two of these meet crosswise.
CREATE OR REPLACE FUNCTION windlass.cancel_parent(p_parent bigint) RETURNS text
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_state text;
    v_jobs  bigint[];
BEGIN
    SELECT p.state INTO v_state FROM windlass.parent p WHERE p.id = p_parent FOR UPDATE;
    IF v_state IS DISTINCT FROM 'waiting' THEN
        RETURN CASE WHEN v_state IS NOT NULL THEN 'finished' END;
    END IF;
    UPDATE windlass.parent p SET cancelling = true WHERE p.id = p_parent;
    DELETE FROM windlass.cancel_request q WHERE q.job = p_parent;
    v_jobs := ARRAY(SELECT t.job FROM windlass.part t
                     WHERE t.parent = p_parent AND t.state <> 'succeeded' AND t.job IS NOT NULL AND t.state = 'out');
    PERFORM windlass.lock_lanes_of(v_jobs);
    PERFORM windlass.cancel_job(u.job) FROM unnest(v_jobs) AS u (job);
    PERFORM windlass.advance(p_parent);
    RETURN 'requested';
END $$;
