-- Frees the keys that settle had to leave. Callers: the store's promote. Lock: the rows it frees, by trying only.
CREATE OR REPLACE FUNCTION windlass.settle_rest(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    u      windlass.unsettled;
    v_done int := 0;
BEGIN
    FOR u IN SELECT * FROM windlass.unsettled LIMIT p_limit FOR UPDATE SKIP LOCKED LOOP
        IF windlass.free_key(u.job, u.snapshot) THEN
            DELETE FROM windlass.unsettled WHERE job = u.job;
            v_done := v_done + 1;
        END IF;
    END LOOP;
    RETURN v_done;
END $$;
