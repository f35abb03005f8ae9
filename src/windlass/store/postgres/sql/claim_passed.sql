-- Uses up the passes for tokens of jobs that leave with a claim, also those of budgets that their task needs no more: else
-- these would be kept for them while they run [F1]. p_jobs: those that brought their id; no other was in a line.
-- Callers: claim. Lock: the rows it removes; the caller holds the lane.
CREATE OR REPLACE FUNCTION windlass.claim_passed(p_jobs bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    IF EXISTS (SELECT FROM windlass.pass p WHERE p.gate >= 'budget:' AND p.gate < 'budget;') THEN
        DELETE FROM windlass.pass p WHERE p.job = ANY (p_jobs) AND p.gate LIKE 'budget:%';
    END IF;
END $$;
