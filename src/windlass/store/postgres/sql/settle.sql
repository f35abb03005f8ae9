-- Clears what hangs on jobs that have ended for good: checkpoint, cancel request, unique key; and enqueues the
-- rerun that was asked for in the meantime [E6].
-- Callers: every function that ends jobs. Lock: the rows of unique_key.
-- p_claims and p_lanes name the claim each job ended in, or NULL where it ended waiting. An enqueue that met the
-- twin waiting left `touched`; it counts only if the claim's snapshot could not see it, for then the twin may
-- have started before the edit was there. One that met the twin running left no `touched` and always counts.
CREATE OR REPLACE FUNCTION windlass.settle(p_jobs bigint[], p_lanes int[], p_claims bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    u      record;
    v_skip boolean;
BEGIN
    DELETE FROM windlass.checkpoint WHERE job = ANY (p_jobs);
    DELETE FROM windlass.cancel_request WHERE job = ANY (p_jobs);
    FOR u IN
        SELECT k.*, a.lane, a.claim
          FROM unnest(p_jobs, p_lanes, p_claims) AS a (id, lane, claim)
          JOIN windlass.unique_key k ON k.job = a.id
           FOR UPDATE OF k
    LOOP
        DELETE FROM windlass.unique_key WHERE key = u.key;
        CONTINUE WHEN u.rerun IS NULL;
        IF u.touched IS NOT NULL THEN
            SELECT pg_visible_in_snapshot(u.touched, c.snapshot) INTO v_skip
              FROM windlass.claim c WHERE c.lane = u.lane AND c.id = u.claim;
            CONTINUE WHEN coalesce(v_skip, true);
        END IF;
        PERFORM windlass.enqueue_one(
            u.rerun ->> 'task', u.rerun ->> 'payload', u.rerun ->> 'queue', (u.rerun ->> 'priority')::smallint,
            NULL, NULL, u.rerun ->> 'options', 'skip', NULL);
    END LOOP;
END $$;
