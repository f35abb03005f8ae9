-- Removes an ended parent with its parts, up to p_limit of them; true once it is gone. Callers: delete, expire.
-- Lock: the parent's row, which the caller holds, and those it removes. The jobs of its parts are jobs like others.
CREATE OR REPLACE FUNCTION windlass.drop_parent(p_parent bigint, p_limit int) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    WITH gone AS (
        DELETE FROM windlass.part t
         WHERE t.parent = p_parent
           AND t.index IN (SELECT x.index FROM windlass.part x WHERE x.parent = p_parent ORDER BY x.index LIMIT p_limit)
        RETURNING t.job)
    DELETE FROM windlass.checkpoint k WHERE k.job IN (SELECT job FROM gone);
    IF EXISTS (SELECT FROM windlass.part t WHERE t.parent = p_parent) THEN
        RETURN false;
    END IF;
    DELETE FROM windlass.part_event e WHERE e.parent = p_parent;
    DELETE FROM windlass.parent p WHERE p.id = p_parent;
    RETURN true;
END $$;
