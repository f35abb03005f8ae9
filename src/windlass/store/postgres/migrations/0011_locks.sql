-- `alive` belongs to a key, so that a change of it conflicts with FOR KEY SHARE: by that checkpoints are fenced, which stand in
-- handlers' own transactions for as long as those last, and which nobody else of the same worker must wait for. See
-- worker_fence and worker_alone.
CREATE UNIQUE INDEX ON windlass.worker_life (id, alive);

-- Its successor takes one argument more, which has a default.
DROP FUNCTION IF EXISTS windlass.queue_load(text, bigint, boolean);

-- What SET CONSTRAINTS ALL IMMEDIATE drew too early is drawn once more: see draw_turn.
CREATE CONSTRAINT TRIGGER in_order_again AFTER UPDATE OF turn ON windlass.held DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.gate = NEW.gate AND NEW.gate LIKE 'order:%') EXECUTE FUNCTION windlass.draw_turn();
