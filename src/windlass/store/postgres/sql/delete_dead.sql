-- Removes those of some jobs that are dead, and answers with them. Callers: the store. Lock: their rows, by trying only.
CREATE OR REPLACE FUNCTION windlass.delete_dead(p_jobs bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_ids bigint[];
BEGIN
    PERFORM windlass.require_read_committed();
    v_ids := ARRAY(SELECT d.id FROM windlass.dead d WHERE d.id = ANY (p_jobs) FOR UPDATE SKIP LOCKED);
    DELETE FROM windlass.dead d WHERE d.id = ANY (v_ids);
    RETURN v_ids;
END $$;
