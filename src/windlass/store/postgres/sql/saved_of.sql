-- How far the parts of a parent have come that have not succeeded, by what they have saved. Callers: the view job_parent. Lock: none.
CREATE OR REPLACE FUNCTION windlass.saved_of(p_parent bigint, OUT done bigint, OUT records bigint)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
    SELECT coalesce(sum(k.done), 0), coalesce(sum(windlass.records_of(k.data)), 0) INTO done, records
      FROM windlass.part t CROSS JOIN LATERAL (SELECT x.done, x.data FROM windlass.checkpoint x WHERE x.job = t.job LIMIT 1) AS k
     WHERE t.parent = p_parent AND t.state <> 'succeeded' AND t.job IS NOT NULL AND t.index >= 0;
END $$;
