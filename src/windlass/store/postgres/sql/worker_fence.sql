-- Proves that a worker is alive in this epoch [S3] and keeps it so until the transaction ends [C5].
-- Callers: claim_take, claim_recheck, finish, split, checkpoint, beat. Lock: the life row FOR SHARE, with p_long FOR KEY SHARE: for
-- what stands in a handler's own transaction, and keeps the worker alive but nothing else of it waiting (see worker_alone; who is
-- about to end it takes FOR UPDATE) [S2]. At a higher isolation level that fails when the row has changed, instead of passing an
-- old snapshot.
CREATE OR REPLACE FUNCTION windlass.worker_fence(p_worker bigint, p_long boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_long THEN
        PERFORM FROM windlass.worker_life w
          JOIN windlass.epoch_mark e ON e.epoch = w.epoch AND e.place = 'windlass.epoch_mark'::regclass::oid::bigint
          WHERE w.id = p_worker AND w.alive FOR KEY SHARE OF w;
    ELSE
        PERFORM FROM windlass.worker_life w
          JOIN windlass.epoch_mark e ON e.epoch = w.epoch AND e.place = 'windlass.epoch_mark'::regclass::oid::bigint
          WHERE w.id = p_worker AND w.alive FOR SHARE OF w;
    END IF;
    IF NOT FOUND THEN
        PERFORM windlass.check_epoch();
        RAISE EXCEPTION 'worker % is not alive', p_worker USING ERRCODE = 'WL002',
            HINT = 'It was retired, or rescued after its heartbeats stopped; its jobs belong to others now.';
    END IF;
END $$;
