-- Ends that nobody told a parent of are noted late: a worker of an older version does not know that the job it finishes is
-- a part's. Looks at up to p_limit parts that are out, those whose jobs come after p_after; `jobs` had ended unnoticed,
-- `parents` are to be brought up to date, `last` is where to go on, 0 at the end.
-- Callers: the store's promote, now and then. Lock: ACCESS SHARE on claim, as in finish; those of settle.
-- One snapshot shows the end of a job together with its note, or with the part that is out no more. A job that is gone
-- counts as cancelled: its redrive runs it again.
CREATE OR REPLACE FUNCTION windlass.note_missed(
    p_after bigint, p_limit int, OUT jobs bigint[], OUT parents bigint[], OUT last bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    v_kinds text[];
BEGIN
    PERFORM windlass.require_read_committed();
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    WITH looked AS MATERIALIZED (
        SELECT t.parent, t.job FROM windlass.part t
         WHERE t.state = 'out' AND t.job > p_after ORDER BY t.job LIMIT p_limit),
    missed AS MATERIALIZED (
        SELECT l.parent, l.job, coalesce(s.state, 'cancelled') AS kind
          FROM looked l LEFT JOIN LATERAL windlass.standing_of(l.job) AS s ON true
         WHERE coalesce(s.state, 'cancelled') IN ('succeeded', 'dead', 'cancelled')
           AND NOT EXISTS (SELECT FROM windlass.part_event e WHERE e.parent = l.parent AND e.job = l.job))
    SELECT (SELECT array_agg(m.job) FROM missed m), (SELECT array_agg(m.kind) FROM missed m),
           (SELECT array_agg(DISTINCT m.parent) FROM missed m),
           (SELECT CASE WHEN count(*) < p_limit THEN 0 ELSE max(l.job) END FROM looked l)
      INTO jobs, v_kinds, parents, last;
    PERFORM windlass.settle(array_agg(u.job), NULL, NULL, u.kind)
       FROM unnest(jobs, v_kinds) AS u (job, kind) GROUP BY u.kind;
END $$;
