-- Frees the keys that settle had to leave, or that a job got back while it may have ended: see end_waiting.
-- Callers: the store's promote. Lock: the rows it frees, by trying only, before they are counted: many that somebody holds keep
-- nobody else's waiting; ACCESS SHARE on claim, as in finish.
CREATE OR REPLACE FUNCTION windlass.settle_rest(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    u      windlass.unsettled;
    v_done int := 0;
BEGIN
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    DELETE FROM windlass.unsettled
     WHERE job = ANY (ARRAY(SELECT x.job FROM windlass.unsettled x
                             WHERE NOT EXISTS (SELECT FROM windlass.unique_key k WHERE k.job = x.job)
                             LIMIT p_limit FOR UPDATE SKIP LOCKED));
    FOR u IN SELECT x.* FROM windlass.unsettled x JOIN windlass.unique_key k ON k.job = x.job
              WHERE NOT windlass.is_unfinished(x.job) LIMIT p_limit FOR UPDATE SKIP LOCKED LOOP
        IF windlass.free_key(u.job, u.snapshot) THEN
            DELETE FROM windlass.unsettled WHERE job = u.job;
            v_done := v_done + 1;
        END IF;
    END LOOP;
    RETURN v_done;
END $$;
