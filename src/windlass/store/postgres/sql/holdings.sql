-- The jobs a worker holds: the unfinished seqs of its claims, with their ready rows.
-- Callers: beat, give_back, the store's held. Lock: none.
-- The worker's floor bounds the search: every claim below it is finished. Volatile, so that its snapshot is taken
-- after its locks: an older one may miss a claim that a rotation has just carried to another segment.
CREATE OR REPLACE FUNCTION windlass.holdings(p_worker bigint)
RETURNS TABLE (claim bigint, segment smallint, ready windlass.ready)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN QUERY
    SELECT c.id, c.segment, r.ready
      FROM windlass.claim c
     CROSS JOIN LATERAL unnest(windlass.unfinished(c.id, c.seqs)) AS open (span)
     CROSS JOIN LATERAL (SELECT x AS ready FROM windlass.ready x
                          WHERE x.lane = c.lane AND x.seq >= lower(open.span) AND x.seq < upper(open.span)) AS r
     WHERE c.worker = p_worker AND c.n > 0 AND c.worker <> 0
       AND c.id >= (SELECT b.floor FROM windlass.worker_beat b WHERE b.id = p_worker)
     ORDER BY c.id, (r.ready).seq;
END $$;
