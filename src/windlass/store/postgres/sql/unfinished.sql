-- What of a claim is not finished: its seqs minus those of its outcomes. The one definition [rule 5].
-- Callers: everything that asks whether a claimed job has ended. Lock: none.
CREATE OR REPLACE FUNCTION windlass.unfinished(p_claim bigint, p_seqs int8multirange) RETURNS int8multirange
LANGUAGE sql STABLE AS $$
    SELECT p_seqs - coalesce((SELECT range_agg(o.seqs) FROM windlass.outcome o WHERE o.claim = p_claim), '{}')
$$;
