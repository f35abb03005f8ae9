-- One bounded step: admits held jobs into lanes that have room, one of each fair key in turn [C3].
-- Callers: the store. Lock: those of admit_ring.
-- OFFSET 0 is a fence [rule 8]: without it the planner groups every held row to find the few lanes that have some.
CREATE OR REPLACE FUNCTION windlass.admit(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    l       record;
    v_total int := 0;
BEGIN
    PERFORM windlass.require_read_committed();
    IF NOT EXISTS (SELECT FROM windlass.held h WHERE h.fair_key IS NOT NULL) THEN
        RETURN 0;
    END IF;
    FOR l IN SELECT q.name, n.priority
               FROM windlass.queue q CROSS JOIN LATERAL (SELECT DISTINCT priority FROM windlass.lane WHERE queue = q.name) AS n
              WHERE EXISTS (SELECT FROM windlass.held h WHERE h.queue = q.name AND h.priority = n.priority
                               AND h.fair_key IS NOT NULL OFFSET 0) LOOP
        v_total := v_total + windlass.admit_ring(l.name, l.priority, p_limit - v_total);
    END LOOP;
    RETURN v_total;
END $$;
