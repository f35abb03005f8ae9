-- Decides once which claims of the victim are to be carried, remembers what was flushed to the others, then removes, in bounded steps, finished jobs that lie
-- in other segments while the evidence of their end lies in this one. Answers with how many went; 0: done.
-- Callers: the store's rotate, after every lane was touched. Lock: the rotation row.
-- Finished is final, so a claim that is not carried needs no second look. Its evidence goes with the segment, and
-- so must the rows that it speaks of: a row that no claim covers would be offered again.
CREATE OR REPLACE FUNCTION windlass.rotation_judge(p_turn bigint, p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    r         windlass.rotation := windlass.rotation_lock(p_turn);
    v_removed int;
BEGIN
    IF NOT r.judged THEN
        SELECT coalesce(array_agg(c.id), '{}') INTO r.carry FROM windlass.claim c
         WHERE c.segment = r.victim AND c.n > 0 AND NOT isempty(windlass.unfinished(c.id, c.seqs));
        UPDATE windlass.rotation SET judged = true, carry = r.carry;
        UPDATE windlass.worker w SET flushed = greatest(w.flushed, f.flush)
          FROM (SELECT c.worker, max(o.flush) AS flush
                  FROM windlass.claim c JOIN windlass.outcome o ON o.segment = c.segment AND o.claim = c.id
                 WHERE c.segment = r.victim AND c.worker <> 0 AND c.id <> ALL (r.carry) GROUP BY c.worker) AS f
         WHERE w.id = f.worker;
    END IF;
    WITH ended AS (
        SELECT c.lane, unnest(range_agg(c.seqs)) AS span FROM windlass.claim c
         WHERE c.segment = r.victim AND c.n > 0 AND c.id <> ALL (r.carry) GROUP BY c.lane),
    stray AS (
        SELECT j.segment, j.lane, j.seq FROM ended e
         CROSS JOIN LATERAL (SELECT x.segment, x.lane, x.seq FROM windlass.ready x
                              WHERE x.lane = e.lane AND x.seq >= lower(e.span) AND x.seq < upper(e.span)
                                AND x.segment <> r.victim) AS j
         LIMIT p_limit)
    DELETE FROM windlass.ready d USING stray s WHERE d.segment = s.segment AND d.lane = s.lane AND d.seq = s.seq;
    GET DIAGNOSTICS v_removed = ROW_COUNT;
    RETURN v_removed;
END $$;
