-- How the claimed attempt at a position ended, or nothing while it runs. Callers: locate, the view job. Lock: none.
CREATE OR REPLACE FUNCTION windlass.place_outcome(p_claim bigint, p_seq bigint)
RETURNS TABLE (kind text, at timestamptz)
LANGUAGE plpgsql STABLE ROWS 1 SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    RETURN QUERY SELECT o.kind, o.at FROM windlass.outcome o WHERE o.claim = p_claim AND o.seqs @> p_seq LIMIT 1;
END $$;
