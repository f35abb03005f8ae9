-- Removes a schedule; its jobs stay. False where there is none. Callers: users, the store. Lock: the row.
CREATE OR REPLACE FUNCTION windlass.drop_schedule(p_name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    DELETE FROM windlass.schedule s WHERE s.name = p_name;
    RETURN FOUND;
END $$;
