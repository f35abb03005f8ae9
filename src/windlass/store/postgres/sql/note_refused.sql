-- Counts jobs that a queue has refused or shed, in a transaction of its own: the producer's has rolled back [F4] [F5]. A queue
-- that refused is full from then on, until it falls to 60 %. Callers: the store, which does without
-- where it fails. Lock: the queue's row, waited for 100 ms at most.
CREATE OR REPLACE FUNCTION windlass.note_refused(p_queue text, p_n int, p_shed boolean) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' SET jit = off AS $$
    UPDATE windlass.queue q
       SET refused = q.refused + CASE WHEN p_shed THEN 0 ELSE p_n END, shed = q.shed + CASE WHEN p_shed THEN p_n ELSE 0 END,
           pressure = CASE WHEN p_shed OR q.max_depth IS NULL THEN q.pressure ELSE 'full' END
     WHERE q.name = p_queue
$$;
