-- What it takes that nobody's open transaction stops the others.

-- Their successors take one argument more, which has a default.
DROP FUNCTION IF EXISTS windlass.queue_load(text, bigint, boolean);
DROP FUNCTION IF EXISTS windlass.worker_fence(bigint);

-- What SET CONSTRAINTS ALL IMMEDIATE drew too early is drawn once more: see draw_turn.
CREATE CONSTRAINT TRIGGER in_order_again AFTER UPDATE OF turn ON windlass.held DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.gate = NEW.gate AND NEW.gate LIKE 'order:%') EXECUTE FUNCTION windlass.draw_turn();
