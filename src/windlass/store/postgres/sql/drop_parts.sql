-- One bounded step: removes parts of parents that are gone, with their checkpoints. Answers with how many.
-- Callers: expire. Lock: the rows it removes, and those of dropped_parent, by trying only.
CREATE OR REPLACE FUNCTION windlass.drop_parts(p_limit int) RETURNS int
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    v_parents bigint[];
    v_jobs    bigint[];
    v_parts   int;
BEGIN
    v_parents := ARRAY(SELECT d.id FROM windlass.dropped_parent d ORDER BY d.id LIMIT p_limit FOR UPDATE SKIP LOCKED);
    WITH step AS MATERIALIZED (
        SELECT x.parent, x.index
          FROM unnest(v_parents) AS d (id)
         CROSS JOIN LATERAL (SELECT t.parent, t.index FROM windlass.part t WHERE t.parent = d.id LIMIT p_limit) AS x
         LIMIT p_limit),
    gone AS (
        DELETE FROM windlass.part t USING step s WHERE t.parent = s.parent AND t.index = s.index RETURNING t.job)
    SELECT count(*), array_agg(job) INTO v_parts, v_jobs FROM gone;
    DELETE FROM windlass.checkpoint k
     WHERE k.job IN (SELECT x.job FROM windlass.checkpoint x WHERE x.job = ANY (v_jobs) FOR UPDATE SKIP LOCKED);
    DELETE FROM windlass.dropped_parent d
     WHERE d.id = ANY (v_parents) AND NOT EXISTS (SELECT FROM windlass.part t WHERE t.parent = d.id);
    RETURN v_parts;
END $$;
