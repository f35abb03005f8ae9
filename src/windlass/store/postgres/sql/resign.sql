-- Gives a term up, so that another may lead at once; does nothing for others [K3].
-- Callers: the store. Lock: the leader row.
CREATE OR REPLACE FUNCTION windlass.resign(p_candidate bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    UPDATE windlass.leader SET holder = NULL, until = '-infinity' WHERE holder = p_candidate;
END $$;
