-- Counts one heartbeat and answers with the jobs of this worker that should be cancelled [C4, O5].
-- Callers: the store. Lock: the life row, FOR NO KEY UPDATE if no claim or flush has it, else FOR SHARE; the beat row.
-- With the life row to itself, and a snapshot younger than that, no claim of the worker is under way. Only then may its
-- floor rise: over claims that are finished, never over one whose answer was lost; 500 a beat, so that it is quick.
CREATE OR REPLACE FUNCTION windlass.beat(p_worker bigint) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    v_floor bigint;
BEGIN
    PERFORM FROM windlass.worker_life w JOIN windlass.epoch_mark e ON e.epoch = w.epoch AND e.place = 'windlass.epoch_mark'::regclass::oid::bigint
      WHERE w.id = p_worker AND w.alive FOR NO KEY UPDATE OF w SKIP LOCKED;
    IF FOUND AND current_setting('transaction_isolation') = 'read committed' THEN
        SELECT coalesce(min(c.id) FILTER (WHERE NOT isempty(windlass.unfinished(c.id, c.seqs))), max(c.id) + 1) INTO v_floor
          FROM (SELECT x.id, x.seqs FROM windlass.claim x
                 WHERE x.worker = p_worker AND x.n > 0 AND x.worker <> 0
                   AND x.id >= (SELECT b.floor FROM windlass.worker_beat b WHERE b.id = p_worker)
                 ORDER BY x.id LIMIT 500) AS c;
    ELSIF NOT FOUND THEN
        PERFORM windlass.worker_fence(p_worker);
    END IF;
    UPDATE windlass.worker_beat SET beat = beat + 1, at = windlass.now(), floor = greatest(floor, v_floor)
     WHERE id = p_worker;
    IF NOT EXISTS (SELECT FROM windlass.cancel_request) THEN
        RETURN '{}';
    END IF;
    RETURN (SELECT coalesce(array_agg(q.job), '{}')
              FROM windlass.holdings(p_worker) h JOIN windlass.cancel_request q ON q.job = windlass.job_of(h.ready));
END $$;
