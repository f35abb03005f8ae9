-- A worker leaves in good order: what it still holds is offered again, uncharged. Callers: the store.
-- Lock: the life row FOR UPDATE, then those of give_back.
CREATE OR REPLACE FUNCTION windlass.retire(p_worker bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    g record;
BEGIN
    -- An update of `alive` alone would not wait for checkpoints, which hold the row FOR KEY SHARE.
    PERFORM FROM windlass.worker_life WHERE id = p_worker AND alive FOR UPDATE;
    UPDATE windlass.worker_life SET alive = false WHERE id = p_worker AND alive;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    SELECT * INTO g FROM windlass.give_back(p_worker, 'released', '{}', 2147483647);
    RETURN g.offered + g.cancelled;
END $$;
