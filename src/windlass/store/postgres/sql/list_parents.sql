-- The parents that were split last, in order, up to p_limit; p_active: of those that have not ended. Callers: the store's parents.
-- Lock: none.
CREATE OR REPLACE FUNCTION windlass.list_parents(p_active boolean, p_limit int) RETURNS TABLE (id bigint, place bigint)
LANGUAGE plpgsql STABLE ROWS 50 SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    IF p_active THEN
        RETURN QUERY SELECT x.id, row_number() OVER () FROM (
            SELECT p.id FROM windlass.parent p WHERE p.state = 'waiting' ORDER BY p.created_at DESC, p.id + 0 DESC LIMIT p_limit) AS x;
    ELSE
        RETURN QUERY SELECT x.id, row_number() OVER () FROM (
            SELECT p.id FROM windlass.parent p ORDER BY p.created_at DESC, p.id + 0 DESC LIMIT p_limit) AS x;
    END IF;
END $$;
