-- Makes a job's progress durable, fenced by worker and claim [C5]. False: the claim is not the worker's, or the job
-- has ended. Callers: the store, also inside a handler's own transaction. Lock: the life row FOR KEY SHARE, see worker_fence.
-- That the claim holds the job is looked up once: from then on the checkpoint says so itself, until the attempt has
-- ended (see finish_others, give_back, settle). Nobody but its own worker can end the attempt of a worker that is alive.
CREATE OR REPLACE FUNCTION windlass.checkpoint(
    p_worker bigint, p_job bigint, p_lane int, p_claim bigint, p_seq bigint, p_data text, p_done bigint, p_total bigint)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    PERFORM windlass.worker_fence(p_worker, true);
    UPDATE windlass.checkpoint k
       SET at = windlass.now(), done = p_done, total = p_total, data = p_data::json
     WHERE k.job = p_job AND k.claim = p_claim AND k.worker = p_worker;
    IF FOUND THEN
        RETURN true;
    END IF;
    PERFORM FROM windlass.claim c
      WHERE c.lane = p_lane AND c.id = p_claim AND c.worker = p_worker
        AND windlass.unfinished(c.id, c.seqs) @> p_seq;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO windlass.checkpoint AS k (job, claim, worker, at, done, total, data)
    VALUES (p_job, p_claim, p_worker, windlass.now(), p_done, p_total, p_data::json)
    ON CONFLICT (job) DO UPDATE SET claim = excluded.claim, worker = excluded.worker, at = excluded.at,
                                    done = excluded.done, total = excluded.total, data = excluded.data;
    RETURN true;
END $$;
