-- The tokens of those who were let out of a budget's line a moment ago and not claimed yet, but for some jobs [F1]. One that
-- waits elsewhere since, or whom nobody comes for (its queue is paused, say), keeps its pass, but nobody waits for it: else jobs
-- could wait for each other's tokens, or for ever.
-- Callers: admit_gate, gate_wait, claim_needs. Lock: none.
CREATE OR REPLACE FUNCTION windlass.promised(p_gate text, p_but bigint[] DEFAULT '{}') RETURNS int
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    RETURN (SELECT least(coalesce(sum(p.need), 0), 1000000000) FROM windlass.pass p
             WHERE p.gate = p_gate AND p.job <> ALL (p_but) AND p.at BETWEEN windlass.now() - interval '5 seconds' AND windlass.now() + interval '1 second'
               AND NOT EXISTS (SELECT FROM windlass.held h WHERE h.id = p.job OFFSET 0));
END $$;
