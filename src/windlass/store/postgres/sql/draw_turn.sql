-- Gives a job in the line of an ordering key its turn anew just before its transaction commits: of two that wait, the one that
-- was committed first goes first, however long the other's transaction took [F6]. Those of one transaction keep their order.
-- Callers: the triggers in_order and in_order_again of held, at commit. Lock: none beyond the row it writes, which nobody else sees
-- yet.
-- SET CONSTRAINTS ALL IMMEDIATE, as frameworks say it, calls it too early. So a turn that it has drawn is looked at once more at the
-- next moment, which is deferred again, and drawn anew unless it was drawn by the same statement: at last by COMMIT.
-- windlass.drawing: which statement that is, and the number from which on it has drawn.
CREATE OR REPLACE FUNCTION windlass.draw_turn() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_drawing text := date_part('epoch', statement_timestamp())::text;
BEGIN
    IF split_part(current_setting('windlass.drawing', true), '/', 1) IS DISTINCT FROM v_drawing THEN
        PERFORM set_config('windlass.drawing', v_drawing || '/' || nextval('windlass.held_turn'), true);
    END IF;
    IF NEW.turn < split_part(current_setting('windlass.drawing'), '/', 2)::bigint THEN
        SET CONSTRAINTS windlass.in_order_again DEFERRED;
        UPDATE windlass.held h SET turn = nextval('windlass.held_turn') WHERE h.id = NEW.id AND h.gate = NEW.gate;
    END IF;
    RETURN NULL;
END $$;
