-- Where a job stands in the logs: the one ready row that is its present place, with claim and outcome.
-- Callers: cancel_job, delete, retry, end_waiting, hold_key, is_unfinished, lock_lanes_of, may_end, note_ends,
-- replace_step, shut_out, standing_of, the store's look-up. Lock: none.
-- Rows of earlier attempts ended in an outcome that sent the job on; they are not its place.
CREATE OR REPLACE FUNCTION windlass.locate(p_job bigint)
RETURNS TABLE (ready windlass.ready, claim bigint, worker bigint, claimed_at timestamptz, kind text,
               finished_at timestamptz)
LANGUAGE sql STABLE ROWS 1 SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    SELECT r.ready, c.id, c.worker, c.claimed_at, o.kind, o.at
      FROM (SELECT x AS ready FROM windlass.ready x
             WHERE x.lane = (p_job >> 44)::int AND x.seq = p_job & 17592186044415 AND x.id IS NULL
             UNION ALL
            SELECT x FROM windlass.ready x WHERE x.id = p_job) AS r
      LEFT JOIN LATERAL windlass.place_claim((r.ready).lane, (r.ready).seq) AS c ON true
      LEFT JOIN LATERAL windlass.place_outcome(c.id, (r.ready).seq) AS o ON true
     WHERE o.kind IS NULL OR o.kind IN ('succeeded', 'cancelled')
     ORDER BY o.kind IS NULL DESC, (r.ready).seq DESC LIMIT 1
$$;
