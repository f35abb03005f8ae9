-- Takes back passes whose jobs have ended unnoticed, so that no gate stays shut for ever: looks at up to p_limit of them in
-- turn, and answers with how many jobs it found. Callers: the store's promote, now and then. Lock: the row that says how far
-- it has come, by trying only; ACCESS SHARE on claim, as in finish; those of drop_passes, which it has tried
-- before: a job of which somebody holds a pass is looked at again next time around.
CREATE OR REPLACE FUNCTION windlass.sweep_passes(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    v_from bigint;
    v_jobs bigint[];
    v_gone bigint[];
    v_free bigint[];
BEGIN
    PERFORM windlass.require_read_committed();
    SELECT k.job INTO v_from FROM windlass.gate_look k FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    v_jobs := ARRAY(SELECT p.job FROM windlass.pass p WHERE p.job > v_from ORDER BY p.job LIMIT p_limit);
    v_gone := ARRAY(SELECT DISTINCT j FROM unnest(v_jobs) AS j WHERE NOT windlass.is_unfinished(j));
    v_free := ARRAY(SELECT p.job FROM windlass.pass p WHERE p.job = ANY (v_gone) FOR UPDATE SKIP LOCKED);
    v_gone := ARRAY(SELECT g FROM unnest(v_gone) AS g
                     WHERE (SELECT count(*) FROM unnest(v_free) AS f WHERE f = g)
                           = (SELECT count(*) FROM windlass.pass p WHERE p.job = g));
    PERFORM windlass.drop_passes(v_gone, 'all', true);
    UPDATE windlass.gate_look k SET job = CASE WHEN cardinality(v_jobs) < p_limit THEN 0 ELSE v_jobs[p_limit] END
     WHERE v_from > 0 OR v_jobs <> '{}';
    RETURN cardinality(v_gone);
END $$;
