-- The tokens of those who were let out of a budget's line and not claimed yet, but for some jobs [F1]. One that waits elsewhere
-- since keeps its pass, but nobody waits for it: else two jobs could wait for each other's tokens.
-- Callers: admit_gate, gate_wait, claim_needs. Lock: none.
CREATE OR REPLACE FUNCTION windlass.promised(p_gate text, p_but bigint[] DEFAULT '{}') RETURNS int
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN (SELECT coalesce(sum(p.need), 0) FROM windlass.pass p
             WHERE p.gate = p_gate AND p.job <> ALL (p_but)
               AND NOT EXISTS (SELECT FROM windlass.held h WHERE h.id = p.job OFFSET 0));
END $$;
