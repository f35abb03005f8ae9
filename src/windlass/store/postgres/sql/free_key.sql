-- Frees the unique key of a job that has ended, and enqueues the rerun asked for in the meantime [E6]. False: a
-- producer's transaction holds the key. Callers: settle, settle_rest. Lock: the key's row, by trying only.
-- An enqueue that met the twin waiting left `touched`; it counts only if the snapshot of the twin's claim could not
-- see it, for then the twin may have started before the edit was there (no claim: the twin never started, and the
-- job that was skipped for it is not owed a run). One that met the twin running left no `touched` and always counts.
CREATE OR REPLACE FUNCTION windlass.free_key(p_job bigint, p_snapshot pg_snapshot) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    u windlass.unique_key;
BEGIN
    SELECT * INTO u FROM windlass.unique_key WHERE job = p_job FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NOT EXISTS (SELECT FROM windlass.unique_key WHERE job = p_job);
    END IF;
    DELETE FROM windlass.unique_key WHERE key = u.key;
    IF u.rerun IS NOT NULL
       AND (u.touched IS NULL OR p_snapshot IS NOT NULL AND NOT pg_visible_in_snapshot(u.touched, p_snapshot)) THEN
        PERFORM windlass.enqueue_one(
            u.rerun ->> 'task', u.rerun ->> 'payload', u.rerun ->> 'queue', (u.rerun ->> 'priority')::smallint,
            (u.rerun ->> 'delay')::float8, (u.rerun ->> 'run_at')::timestamptz, u.rerun ->> 'options', 'skip', NULL, p_known => true,
            p_judge => false);
    END IF;
    RETURN true;
END $$;
