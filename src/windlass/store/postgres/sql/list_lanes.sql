-- The newest rows of lanes, as a listing looks at them: of those that task, tag and text fit, and of the last one, the seqs,
-- newest first, when each was offered (seconds since the epoch) and how many rows up to it were looked at; `fits`: the last one
-- does, too; `more`: there may be more behind it. Callers: the store's listing. Lock: none.
-- p_lanes NULL: all lanes of the queue; else these, below the seqs p_before. About p_total rows in all, of each lane at least
-- p_least. Nothing costly is asked of a row here: its state is judged later, and only where it fits.
CREATE OR REPLACE FUNCTION windlass.list_lanes(
    p_queue text, p_state text, p_task text, p_tag text, p_text text, p_lanes int[], p_before bigint[], p_total int, p_least int)
RETURNS TABLE (lane int, seqs bigint[], times float8[], ranks bigint[], fits boolean, more boolean)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    v_each int;
BEGIN
    v_each := greatest(p_least, p_total / greatest(cardinality(p_lanes),
        CASE WHEN p_lanes IS NULL THEN (SELECT count(*)::int FROM windlass.lane l WHERE p_queue IS NULL OR l.queue = p_queue) END, 1));
    RETURN QUERY
    WITH wanted AS MATERIALIZED (
        SELECT s.lane, s.span * int8multirange(int8range(NULL, b.before)) AS span
          FROM windlass.list_spans(p_queue, p_state) AS s
          LEFT JOIN unnest(p_lanes, p_before) AS b (lane, before) ON b.lane = s.lane
         WHERE p_lanes IS NULL OR b.lane IS NOT NULL)
    SELECT w.lane, array_agg(r.seq ORDER BY r.rank), array_agg(date_part('epoch', r.offered_at) ORDER BY r.rank),
           array_agg(r.rank ORDER BY r.rank), bool_or(r.fit AND r.rank = r.n), max(r.n) >= v_each
      FROM wanted w
     CROSS JOIN LATERAL (
           SELECT x.*, row_number() OVER (ORDER BY x.seq DESC) AS rank, count(*) OVER () AS n
             FROM (SELECT x.seq, x.offered_at, x.fit FROM unnest(w.span) AS part (span)
                    CROSS JOIN LATERAL (
                          SELECT j.seq, j.offered_at,
                                 (p_task IS NULL OR j.task = p_task)
                                 AND (p_tag IS NULL OR coalesce((j.options -> 'tags')::jsonb ? p_tag, false))
                                 AND (p_text IS NULL OR strpos(j.payload::text, p_text) > 0) AS fit
                            FROM windlass.ready j
                           WHERE j.lane = w.lane AND j.seq >= coalesce(lower(part.span), 0)
                             AND j.seq < coalesce(upper(part.span), 9223372036854775807)
                           ORDER BY j.seq DESC LIMIT v_each) AS x
                    ORDER BY x.seq DESC LIMIT v_each) AS x) AS r
     WHERE r.fit OR r.rank = r.n
     GROUP BY w.lane;
END $$;
