-- Counts a claim of a limited queue: its governor's tokens are taken, and it is open until it is found to have ended [F2] [F3].
-- False: its bucket is not to be had, as in bucket_try, and the caller must roll back. Callers: claim, after claim_take.
-- Lock: the bucket's row; the caller holds the locks of queue and lane.
CREATE OR REPLACE FUNCTION windlass.claim_count(p_lane int, p_claim bigint, p_n int, p_wait int) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    q windlass.queue;
BEGIN
    SELECT x.* INTO q FROM windlass.queue x JOIN windlass.lane l ON l.queue = x.name WHERE l.id = p_lane;
    IF q.concurrency IS NOT NULL THEN
        WITH known AS MATERIALIZED (SELECT o.claim, o.lane, o.n FROM windlass.open_claims(q.name) AS o),
        ended AS (DELETE FROM windlass.open_claim x USING known k WHERE x.queue = q.name AND x.claim = k.claim AND k.n = 0)
        INSERT INTO windlass.open_claim (queue, claim, lane)
        SELECT q.name, k.claim, k.lane FROM known k WHERE k.n > 0
         UNION
        SELECT q.name, p_claim, p_lane
        ON CONFLICT DO NOTHING;
        -- Not ON CONFLICT alone: an open set_queue may be about to remove the row, and would be waited for.
        INSERT INTO windlass.limited_queue (queue)
        SELECT q.name WHERE NOT EXISTS (SELECT FROM windlass.limited_queue x WHERE x.queue = q.name) ON CONFLICT DO NOTHING;
    END IF;
    IF q.governor THEN
        IF NOT windlass.bucket_try('queue:' || q.name, '', p_wait) THEN
            RETURN false;
        END IF;
        PERFORM windlass.bucket_take('queue:' || q.name, '', p_n, false);
    END IF;
    RETURN true;
END $$;
