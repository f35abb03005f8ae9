-- The rows of charts at some places, as far as they are there. Callers: the store's rollup, after rollup_take. Lock: none; the
-- caller holds that of rollup_take. OFFSET 0 is a fence [rule 8]: one probe for each place, however many rows there are.
CREATE OR REPLACE FUNCTION windlass.rollup_rows(p_spans int[], p_ats bigint[], p_queues text[], p_tasks text[])
RETURNS SETOF windlass.measured
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    RETURN QUERY
    SELECT m.*
      FROM unnest(p_spans, p_ats, p_queues, p_tasks) AS p (span, at, queue, task)
     CROSS JOIN LATERAL (SELECT * FROM windlass.measured x
                          WHERE x.span = p.span AND x.queue = p.queue AND x.task = p.task AND x.at = p.at OFFSET 0) AS m;
END $$;
