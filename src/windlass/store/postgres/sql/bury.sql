-- Declares a worker dead if its beat still stands where the observer saw it stand for a whole lease [C8].
-- Callers: the store's rescue, in a transaction of its own. Lock: the life row, by trying only: a rescue that
-- waited would stand before the worker's own beats. True: dead (now or before); false: it lives or is writing.
CREATE OR REPLACE FUNCTION windlass.bury(p_worker bigint, p_beat bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    v_alive boolean;
BEGIN
    SELECT alive INTO v_alive FROM windlass.worker_life WHERE id = p_worker FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF v_alive THEN
        UPDATE windlass.worker_life l SET alive = false
         WHERE l.id = p_worker AND EXISTS (SELECT FROM windlass.worker_beat b WHERE b.id = l.id AND b.beat = p_beat);
        RETURN FOUND;
    END IF;
    RETURN true;
END $$;
