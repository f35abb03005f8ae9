-- Clears what hangs on jobs that have ended for good: checkpoint, cancel request, unique key.
-- Callers: every function that ends jobs. Lock: the rows of unique_key, by trying only.
-- p_claims and p_lanes name the claim each job ended in, or NULL where it ended waiting. A key that a producer's
-- transaction holds is left to settle_rest: no worker waits for a producer.
CREATE OR REPLACE FUNCTION windlass.settle(p_jobs bigint[], p_lanes int[], p_claims bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    u record;
BEGIN
    DELETE FROM windlass.checkpoint WHERE job = ANY (p_jobs);
    DELETE FROM windlass.cancel_request WHERE job = ANY (p_jobs);
    IF NOT EXISTS (SELECT FROM windlass.unique_key WHERE job = ANY (p_jobs)) THEN
        RETURN;
    END IF;
    FOR u IN SELECT a.job, c.snapshot
               FROM unnest(p_jobs, p_lanes, p_claims) AS a (job, lane, claim)
               LEFT JOIN LATERAL (SELECT x.snapshot FROM windlass.claim x WHERE x.lane = a.lane AND x.id = a.claim) AS c
                 ON true LOOP
        IF NOT windlass.free_key(u.job, u.snapshot) THEN
            INSERT INTO windlass.unsettled (job, snapshot) VALUES (u.job, u.snapshot) ON CONFLICT DO NOTHING;
        END IF;
    END LOOP;
END $$;
