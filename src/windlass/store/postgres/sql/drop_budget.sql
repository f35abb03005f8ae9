-- Removes a budget and its buckets; false where there is none [F1]. Callers: users, the store. Lock: that of budget_lock, then
-- the rows, those of buckets first.
CREATE OR REPLACE FUNCTION windlass.drop_budget(p_name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    IF position(':' IN p_name) > 0 THEN
        RETURN false;  -- that of a queue's governor
    END IF;
    PERFORM windlass.budget_lock(p_name);
    PERFORM FROM windlass.bucket k WHERE k.budget = p_name ORDER BY k.key FOR UPDATE;
    DELETE FROM windlass.bucket k WHERE k.budget = p_name;
    DELETE FROM windlass.budget b WHERE b.name = p_name;
    RETURN FOUND;
END $$;
