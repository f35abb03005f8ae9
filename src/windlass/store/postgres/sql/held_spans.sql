-- What a worker holds, as spans of positions: holdings without the jobs, which may be large [S4]. Only of claims from p_since on.
-- Callers: the store, every few seconds for each worker. Lock: none.
-- Volatile and bounded by the worker's floor as holdings is, and for the same reasons. That floor lags behind where claims
-- are many, so a claim whose outcomes in its own segment cover it is passed over first: one probe (14 us), not eight (65).
CREATE OR REPLACE FUNCTION windlass.held_spans(p_worker bigint, p_since bigint)
RETURNS TABLE (claim bigint, lane int, first bigint, beyond bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    RETURN QUERY
    SELECT o.id, o.lane, lower(o.span), upper(o.span)
      FROM (SELECT c.id, c.lane, unnest(windlass.unfinished(c.id, c.seqs)) AS span
              FROM windlass.claim c
             WHERE c.worker = p_worker AND c.n > 0 AND c.worker <> 0
               AND c.id >= (SELECT greatest(b.floor, p_since) FROM windlass.worker_beat b WHERE b.id = p_worker)
               AND NOT isempty(c.seqs - coalesce((SELECT range_agg(x.seqs) FROM windlass.outcome x
                                                   WHERE x.segment = c.segment AND x.claim = c.id), '{}')) OFFSET 0) AS o;
END $$;
