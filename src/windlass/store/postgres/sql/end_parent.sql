-- Ends a parent: its key is freed, and whoever waits for it is woken [P9]. Callers: advance. Lock: the parent's row, held
-- by the caller; those of settle.
CREATE OR REPLACE FUNCTION windlass.end_parent(p windlass.parent, p_state text, p_reason text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE windlass.parent x SET state = p_state, reason = p_reason, finished_at = windlass.now() WHERE x.id = p.id;
    PERFORM windlass.settle(ARRAY[p.id], NULL, NULL, p_state, p.snapshot);
    IF pg_sequence_last_value('windlass.awaited'::regclass) = 1 THEN
        PERFORM windlass.wake('!');
    END IF;
END $$;
