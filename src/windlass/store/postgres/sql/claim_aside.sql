-- Puts jobs of a claim aside, each in the line of the bucket that has no tokens for it, or of its task's limit [F1] [F3].
-- Callers: claim_needs, claim_gated. Lock: none beyond the rows it writes; the caller holds the lane.
-- For the log their attempts have ended, as `held`, in a flush of nobody's: 0, and -1 where the claim has such a one already.
-- One that had been let out of that line goes back to its place in it. Who waits for tokens takes no slot meanwhile: else a
-- budget that runs dry would keep them from everybody.
CREATE OR REPLACE FUNCTION windlass.claim_aside(
    p_lane int, p_claim bigint, p_seqs bigint[], p_jobs bigint[], p_gates text[], p_needs int[]) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    INSERT INTO windlass.outcome (segment, claim, lane, flush, kind, seqs, n, at)
    SELECT c.segment, p_claim, p_lane, -(SELECT count(*) FROM windlass.outcome o WHERE o.claim = p_claim), 'held',
           (SELECT range_agg(int8range(s, s + 1)) FROM unnest(p_seqs) AS s), cardinality(p_seqs), windlass.now()
      FROM windlass.claim c WHERE c.lane = p_lane AND c.id = p_claim;
    PERFORM windlass.stir_gates(p_gates);
    INSERT INTO windlass.held (id, turn, since, enqueued_at, queue, priority, attempt, deaths, gate, need, task, payload, options)
    SELECT u.job, coalesce(p.turn, nextval('windlass.held_turn')), r.offered_at, coalesce(r.enqueued_at, r.offered_at),
           l.queue, l.priority, r.attempt, r.deaths, u.gate, u.need, r.task, r.payload, r.options
      FROM (SELECT * FROM unnest(p_seqs, p_jobs, p_gates, p_needs) WITH ORDINALITY AS x (seq, job, gate, need, i)
             ORDER BY x.i) AS u
     CROSS JOIN LATERAL (SELECT * FROM windlass.ready y WHERE y.lane = p_lane AND y.seq = u.seq LIMIT 1) AS r
      JOIN windlass.lane l ON l.id = p_lane
      LEFT JOIN windlass.pass p ON p.job = u.job AND p.gate = u.gate
     ORDER BY u.i;
    DELETE FROM windlass.pass p USING unnest(p_jobs, p_gates) AS u (job, gate)
     WHERE p.job = u.job AND p.gate = u.gate;
    PERFORM windlass.drop_passes(ARRAY(SELECT u.job FROM unnest(p_jobs, p_gates) AS u (job, gate) WHERE u.gate LIKE 'budget:%'),
                                 'slots', true);
END $$;
