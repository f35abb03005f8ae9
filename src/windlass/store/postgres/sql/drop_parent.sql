-- Removes an ended parent. Callers: delete, expire. Lock: the parent's row, which the caller holds.
-- It goes at once, so that nobody can redrive a parent that has lost some of its parts; those follow in bounded steps (see
-- drop_parts). Their jobs are jobs like others.
CREATE OR REPLACE FUNCTION windlass.drop_parent(p_parent bigint) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
BEGIN
    DELETE FROM windlass.part_event e WHERE e.parent = p_parent;
    DELETE FROM windlass.parent p WHERE p.id = p_parent;
    INSERT INTO windlass.dropped_parent (id) VALUES (p_parent);
END $$;
