-- Gives a job in the line of an ordering key its turn anew just before its transaction commits: of two that wait, the one that
-- was committed first goes first, however long the other's transaction took [F6]. Those of one transaction keep their order.
-- Callers: the trigger in_order of held, at commit. Lock: none beyond the row it writes, which nobody else sees yet.
CREATE OR REPLACE FUNCTION windlass.draw_turn() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    UPDATE windlass.held h SET turn = nextval('windlass.held_turn') WHERE h.id = NEW.id AND h.gate = NEW.gate;
    RETURN NULL;
END $$;
