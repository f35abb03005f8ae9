-- Where jobs stand in the logs: locate for many, of those that are neither a parent nor a part. claimed: it runs or has run;
-- ended: for good. Callers: the store, before it steers many. Lock: ACCESS SHARE on claim, as in finish.
-- It decides nothing: what waits here may run a moment later, and who ends it looks again. What has ended stays so.
CREATE OR REPLACE FUNCTION windlass.places_of(p_jobs bigint[])
RETURNS TABLE (job bigint, lane int, seq bigint, claimed boolean, ended boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
    PERFORM windlass.require_read_committed();
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    RETURN QUERY
    WITH spots AS MATERIALIZED (
        SELECT array_agg(x.lane) AS lanes, array_agg(x.seq) AS seqs
          FROM unnest(p_jobs) AS j (id)
         CROSS JOIN LATERAL (
            SELECT r.lane, r.seq FROM windlass.ready r
             WHERE r.lane = (j.id >> 44)::int AND r.seq = j.id & 17592186044415 AND r.id IS NULL
             UNION ALL
            SELECT r.lane, r.seq FROM windlass.ready r WHERE r.id = j.id OFFSET 0) AS x
         WHERE NOT EXISTS (SELECT FROM windlass.part t WHERE t.job = j.id OFFSET 0)
           AND NOT EXISTS (SELECT FROM windlass.parent p WHERE p.id = j.id OFFSET 0))
    SELECT DISTINCT ON (g.id) g.id, g.lane, g.seq, g.claim IS NOT NULL, g.finished_at IS NOT NULL
      FROM spots s CROSS JOIN LATERAL windlass.list_judged(s.lanes, s.seqs, NULL) AS g
     ORDER BY g.id, g.finished_at IS NULL DESC, g.seq DESC;
END $$;
