-- Forgets the throttles of a queue that went well for 120 s after its last cool-down, or at once where an operator says
-- so; true if it did [O3]. Callers: the store. Lock: the queue's row, where there is something to forget,
-- waited for 1 s at most.
CREATE OR REPLACE FUNCTION windlass.warm(p_queue text, p_force boolean DEFAULT false) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' SET jit = off AS $$
BEGIN
    UPDATE windlass.queue SET throttles = 0, cool_until = NULL
     WHERE name = p_queue AND throttles > 0 AND (p_force OR cool_until <= windlass.now() - interval '120 s');
    IF FOUND AND p_force THEN
        PERFORM windlass.wake(p_queue);  -- who asked meanwhile was told that it cools
        RETURN true;
    END IF;
    RETURN FOUND;
END $$;
