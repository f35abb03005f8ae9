-- Waits until no write of a worker is under way, keeps others out until the transaction ends, and says whether it lives.
-- Callers: finish, where attempts end otherwise than well; split; the store's held. Lock: the life row FOR UPDATE.
-- A flush or claim whose connection broke may still be running in the server. Whoever decides what that worker holds must
-- look after it, in a later statement: a snapshot taken before cannot see what it is about to commit. It must be the
-- first lock on that row in its transaction: two that held it FOR SHARE would wait for each other.
CREATE OR REPLACE FUNCTION windlass.worker_alone(p_worker bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    v_alive boolean;
BEGIN
    SELECT alive INTO v_alive FROM windlass.worker_life WHERE id = p_worker FOR UPDATE;
    RETURN coalesce(v_alive, false);
END $$;
