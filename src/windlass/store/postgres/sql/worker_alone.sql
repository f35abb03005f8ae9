-- Waits until no claim and no flush of a worker is under way, keeps others out until the transaction ends, and says whether it lives.
-- Callers: finish, where attempts end otherwise than well; split; the store's held. Lock: the life row FOR NO KEY UPDATE, which does not wait for
-- checkpoints: those stand in handlers' own transactions, for as long as handlers like [S2].
-- A flush or claim whose connection broke may still be running in the server. Whoever decides what that worker holds must
-- look after it, in a later statement: a snapshot taken before cannot see what it is about to commit. It must be the
-- first lock on that row in its transaction: two that held it FOR SHARE would wait for each other.
CREATE OR REPLACE FUNCTION windlass.worker_alone(p_worker bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    v_alive boolean;
    v_epoch bigint;
BEGIN
    SELECT alive, epoch INTO v_alive, v_epoch FROM windlass.worker_life WHERE id = p_worker FOR NO KEY UPDATE;
    IF v_epoch IS DISTINCT FROM windlass.epoch_here() THEN
        PERFORM windlass.check_epoch();
    END IF;
    RETURN coalesce(v_alive, false);
END $$;
