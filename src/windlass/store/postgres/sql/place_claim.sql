-- The claim that covers a position, or nothing where the job is still waiting. Callers: locate,
-- rotation_move, the view job. Lock: none.
-- hi only ever rises, so the first claim with hi >= seq is the one that passed it; if it passed it as a hole, a
-- late claim may have taken it since, and those are few and indexed apart.
CREATE OR REPLACE FUNCTION windlass.place_claim(p_lane int, p_seq bigint)
RETURNS TABLE (id bigint, worker bigint, claimed_at timestamptz, segment smallint)
LANGUAGE plpgsql STABLE ROWS 1 SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    RETURN QUERY
    SELECT c.id, c.worker, c.claimed_at, c.segment
      FROM (SELECT * FROM windlass.claim x WHERE x.lane = p_lane AND x.hi >= p_seq ORDER BY x.hi, x.id LIMIT 1) AS c
     WHERE c.seqs @> p_seq;
    IF NOT FOUND THEN
        RETURN QUERY
        SELECT c.id, c.worker, c.claimed_at, c.segment
          FROM windlass.claim c WHERE c.lane = p_lane AND c.late AND c.seqs @> p_seq ORDER BY c.id DESC LIMIT 1;
    END IF;
END $$;
