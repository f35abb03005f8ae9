-- Counts one heartbeat and answers with the jobs of this worker that should be cancelled [C4, O5].
-- Callers: the store. Lock: the life row FOR SHARE, the beat row.
CREATE OR REPLACE FUNCTION windlass.beat(p_worker bigint, p_floor bigint) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    PERFORM windlass.worker_fence(p_worker);
    UPDATE windlass.worker_beat SET beat = beat + 1, at = windlass.now(), floor = greatest(floor, p_floor)
     WHERE id = p_worker;
    IF NOT EXISTS (SELECT FROM windlass.cancel_request) THEN
        RETURN '{}';
    END IF;
    RETURN (SELECT coalesce(array_agg(q.job), '{}')
              FROM windlass.holdings(p_worker) h JOIN windlass.cancel_request q ON q.job = windlass.job_of(h.ready));
END $$;
