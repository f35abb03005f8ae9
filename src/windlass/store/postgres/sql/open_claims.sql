-- The claims of a queue that have not ended, each with how many of its jobs have not [F3]. Callers: claim_room, claim_count.
-- Lock: none; the caller holds that of the queue.
-- A queue that is counted already knows its open claims; one that has just got its limit asks all workers, as depth does.
CREATE OR REPLACE FUNCTION windlass.open_claims(p_queue text) RETURNS TABLE (claim bigint, lane int, n bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    IF EXISTS (SELECT FROM windlass.limited_queue q WHERE q.queue = p_queue) THEN
        RETURN QUERY
        SELECT o.claim, o.lane, coalesce(c.n, 0)
          FROM windlass.open_claim o
          LEFT JOIN LATERAL (SELECT windlass.size_of(windlass.unfinished(x.id, x.seqs)) AS n FROM windlass.claim x
                              WHERE x.lane = o.lane AND x.id = o.claim LIMIT 1) AS c ON true
         WHERE o.queue = p_queue;
    ELSE
        RETURN QUERY
        SELECT h.id, h.lane, h.n
          FROM windlass.worker_life w
          JOIN windlass.worker_beat b ON b.id = w.id
         CROSS JOIN LATERAL (SELECT c.id, c.lane, windlass.size_of(windlass.unfinished(c.id, c.seqs)) AS n
                               FROM windlass.claim c
                              WHERE c.worker = w.id AND c.n > 0 AND c.worker <> 0 AND c.id >= b.floor OFFSET 0) AS h
          JOIN windlass.lane l ON l.id = h.lane
         WHERE NOT w.settled AND l.queue = p_queue AND h.n > 0;
    END IF;
END $$;
