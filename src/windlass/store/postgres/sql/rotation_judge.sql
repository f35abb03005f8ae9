-- Judges the claims of the victim in bounded steps: which are to be carried, and what goes with the others.
-- Callers: the store's rotate, after every lane was touched. Lock: the rotation row.
-- Finished is final, so a claim that is not carried needs no second look. Its evidence goes with the segment, and so
-- must the rows that it speaks of in other segments: a row that no claim covers would be offered again. What was
-- flushed to it is remembered as a number of its worker, so that a flush sent again is known for what it is.
CREATE OR REPLACE FUNCTION windlass.rotation_judge(p_turn bigint, p_limit int, OUT removed int, OUT done boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    r        windlass.rotation := windlass.rotation_lock(p_turn);
    v_lanes  int[];
    v_claims bigint[];
    v_open   boolean[];
    v_n      int;
BEGIN
    removed := 0;
    done := r.judged;
    IF done THEN
        RETURN;
    END IF;
    SELECT array_agg(c.lane), array_agg(c.id),
           array_agg(c.n > 0 AND NOT isempty(windlass.unfinished(c.id, c.seqs))), count(*)
      INTO v_lanes, v_claims, v_open, v_n
      FROM (SELECT x.lane, x.id, x.n, x.seqs FROM windlass.claim x
             WHERE x.segment = r.victim AND (x.lane, x.id) > (r.judged_lane, r.judged_id)
             ORDER BY x.lane, x.id LIMIT p_limit) AS c;
    WITH ended AS MATERIALIZED (
        SELECT c.lane, c.id, c.worker, unnest(c.seqs) AS span
          FROM unnest(v_lanes, v_claims, v_open) AS u (lane, id, open)
          JOIN windlass.claim c ON c.segment = r.victim AND c.lane = u.lane AND c.id = u.id
         WHERE NOT u.open),
    flushed AS (
        UPDATE windlass.worker w SET flushed = greatest(w.flushed, f.flush)
          FROM (SELECT e.worker, max(o.flush) AS flush
                  FROM ended e JOIN windlass.outcome o ON o.segment = r.victim AND o.claim = e.id
                 WHERE e.worker <> 0 GROUP BY e.worker) AS f
         WHERE w.id = f.worker),
    stray AS MATERIALIZED (
        SELECT j.segment, j.place FROM ended e
         CROSS JOIN LATERAL (SELECT x.segment, x.ctid AS place FROM windlass.ready x
                              WHERE x.lane = e.lane AND x.seq >= lower(e.span) AND x.seq < upper(e.span)
                                AND x.segment <> r.victim OFFSET 0) AS j),
    gone AS (
        DELETE FROM windlass.ready d USING stray s WHERE d.segment = s.segment AND d.ctid = s.place RETURNING 1)
    SELECT count(*) INTO removed FROM gone;
    done := v_n < p_limit;
    UPDATE windlass.rotation x
       SET judged = rotation_judge.done,
           judged_lane = coalesce(v_lanes[v_n], x.judged_lane), judged_id = coalesce(v_claims[v_n], x.judged_id),
           carry_lanes = x.carry_lanes || coalesce((SELECT array_agg(u.lane) FROM unnest(v_lanes, v_open) AS u (lane, open)
                                                     WHERE u.open), '{}'),
           carry = x.carry || coalesce((SELECT array_agg(u.id) FROM unnest(v_claims, v_open) AS u (id, open)
                                         WHERE u.open), '{}');
END $$;
