-- Writes the rows of charts that news were folded into, and forgets those news. Callers: the store's rollup, after rollup_take
-- and rollup_rows. Lock: the rows it writes; the caller holds that of rollup_take.
CREATE OR REPLACE FUNCTION windlass.rollup_put(p_rows json, p_news bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    INSERT INTO windlass.measured (span, at, queue, task, counts, waits, runs)
    SELECT r.span, r.at, r.queue, r.task, r.counts, r.waits, r.runs
      FROM json_to_recordset(p_rows)
        AS r (span int, at bigint, queue text, task text, counts jsonb, waits jsonb, runs jsonb)
    ON CONFLICT (span, queue, task, at) DO UPDATE
       SET counts = excluded.counts, waits = excluded.waits, runs = excluded.runs;
    DELETE FROM windlass.news WHERE id = ANY (p_news);
END $$;
