-- Which of these rows of lanes are the present place of their job, and its state there; as the view job shows them, those of one
-- state where asked for (running and splitting go for one here). Callers: places_of, the store's listing.
-- Lock: none.
-- Claims and outcomes are read once for all rows that they cover, and a row itself only where its state is the one.
CREATE OR REPLACE FUNCTION windlass.list_judged(p_lanes int[], p_seqs bigint[], p_state text)
RETURNS TABLE (lane int, seq bigint, id bigint, task text, queue text, priority smallint, state text, attempt smallint,
               deaths smallint, payload json, options json, enqueued_at timestamptz, run_at timestamptz, claimed_at timestamptz,
               finished_at timestamptz, worker bigint, claim bigint, reason text)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
    RETURN QUERY
    WITH placed AS MATERIALIZED (
        SELECT w.lane, p.seq, p.claim, p.worker, p.claimed_at
          FROM (SELECT u.lane, array_agg(u.seq ORDER BY u.seq) AS seqs
                  FROM unnest(p_lanes, p_seqs) AS u (lane, seq) GROUP BY u.lane) AS w
         CROSS JOIN LATERAL windlass.list_claims(w.lane, w.seqs) AS p),
    ended AS MATERIALIZED (
        SELECT o.claim, o.kind, o.at, o.seqs
          FROM (SELECT DISTINCT p.claim FROM placed p WHERE p.claim IS NOT NULL) AS k
         CROSS JOIN LATERAL (SELECT x.claim, x.kind, x.at, x.seqs FROM windlass.outcome x WHERE x.claim = k.claim OFFSET 0) AS o),
    judged AS MATERIALIZED (
        SELECT p.lane, p.seq, p.claim, p.worker, p.claimed_at, e.kind, e.at
          FROM placed p LEFT JOIN ended e ON e.claim = p.claim AND e.seqs @> p.seq
         WHERE (e.kind IS NULL OR e.kind IN ('succeeded', 'cancelled'))
           AND (p_state IS NULL OR CASE WHEN e.kind IS NOT NULL THEN e.kind = p_state WHEN p.claim IS NULL THEN p_state = 'ready'
                                        ELSE p_state IN ('running', 'splitting') END))
    SELECT r.lane, r.seq, windlass.job_of(r.ready), (r.ready).task, l.queue, l.priority,
           windlass.shown_as(j.kind, j.claim, (r.ready).options), (r.ready).attempt, (r.ready).deaths, (r.ready).payload,
           (r.ready).options, windlass.enqueued_of(r.ready), NULL::timestamptz, j.claimed_at, j.at, nullif(j.worker, 0), j.claim,
           NULL::text
      FROM judged j
      JOIN windlass.lane l ON l.id = j.lane
      JOIN windlass.queue q ON q.name = l.queue
     CROSS JOIN LATERAL (SELECT x.lane, x.seq, x AS ready FROM windlass.ready x WHERE x.lane = j.lane AND x.seq = j.seq OFFSET 0) AS r
     WHERE j.kind IS NULL OR q.retention IS NULL OR j.at > windlass.now() - make_interval(secs => q.retention);
END $$;
