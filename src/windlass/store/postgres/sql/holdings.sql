-- The jobs a worker holds: the unfinished seqs of its claims, with their ready rows.
-- Callers: beat, give_back, count_running, the store's held. Lock: none.
-- The worker's floor bounds the search: every claim below it is finished. Volatile, so that its snapshot is taken
-- after its locks: an older one may miss a claim that a rotation has just carried to another segment.
-- Each OFFSET 0 is a fence [rule 8]: joined in another order, `unfinished` runs once per ready row of the lane (4,000
-- claims: 33 s instead of 0.2 s).
CREATE OR REPLACE FUNCTION windlass.holdings(p_worker bigint)
RETURNS TABLE (claim bigint, segment smallint, ready windlass.ready)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    RETURN QUERY
    SELECT o.id, o.segment, r.ready
      FROM (SELECT c.id, c.segment, c.lane, unnest(windlass.unfinished(c.id, c.seqs)) AS span
              FROM windlass.claim c
             WHERE c.worker = p_worker AND c.n > 0 AND c.worker <> 0
               AND c.id >= (SELECT b.floor FROM windlass.worker_beat b WHERE b.id = p_worker) OFFSET 0) AS o
     CROSS JOIN LATERAL (SELECT x AS ready FROM windlass.ready x
                          WHERE x.lane = o.lane AND x.seq >= lower(o.span) AND x.seq < upper(o.span) OFFSET 0) AS r
     ORDER BY o.id, (r.ready).seq;
END $$;
