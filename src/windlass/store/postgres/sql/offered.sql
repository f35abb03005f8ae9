-- How often jobs were offered in each queue [M1]: numbers drawn in its lanes since they were declared, so it never falls;
-- without those that epochs have passed over. Apart from `depth`, whose columns users rely on. Callers: the store. Lock: none.
CREATE OR REPLACE FUNCTION windlass.offered() RETURNS TABLE (queue text, n bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    RETURN QUERY
    SELECT l.queue, sum(coalesce(pg_sequence_last_value(l.position), 0) - l.skipped)::bigint FROM windlass.lane l GROUP BY l.queue;
END $$;
