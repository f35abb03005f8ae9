-- Writes the rows of charts that news were folded into, and forgets those news. Callers: the store's rollup, after rollup_take
-- and rollup_rows. Lock: the rows it writes; the caller holds that of rollup_take.
CREATE OR REPLACE FUNCTION windlass.rollup_put(
    p_spans int[], p_ats bigint[], p_queues text[], p_tasks text[], p_samples bytea[], p_news bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
BEGIN
    INSERT INTO windlass.measured (span, at, queue, task, sample)
    SELECT * FROM unnest(p_spans, p_ats, p_queues, p_tasks, p_samples)
    ON CONFLICT (span, queue, task, at) DO UPDATE SET sample = excluded.sample;
    DELETE FROM windlass.news WHERE id = ANY (p_news);
END $$;
