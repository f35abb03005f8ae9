-- Where a job stands, wherever it is: its state as users know it, and its attempt. No row: there is no such job. The one
-- function that knows. Callers: check_after, enqueue_one, follow, note_missed, the view job_part. Lock: none;
-- who acts on it has locked claim in ACCESS SHARE mode before, as in finish.
-- On its way from one place to the next a job is in exactly one of them in any snapshot, hence one statement.
CREATE OR REPLACE FUNCTION windlass.standing_of(p_job bigint) RETURNS TABLE (state text, attempt smallint)
LANGUAGE sql STABLE ROWS 1 SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    SELECT CASE WHEN d.retrying THEN 'retrying' ELSE 'scheduled' END, d.attempt FROM windlass.deferred d WHERE d.id = p_job
     UNION ALL
    SELECT 'ready', h.attempt FROM windlass.held h WHERE h.id = p_job
     UNION ALL
    SELECT p.state, p.attempt FROM windlass.parent p WHERE p.id = p_job
     UNION ALL
    SELECT windlass.shown_as(l.kind, l.claim, (l.ready).options), (l.ready).attempt FROM windlass.locate(p_job) AS l
     UNION ALL
    SELECT 'dead', d.attempt FROM windlass.dead d WHERE d.id = p_job
     LIMIT 1
$$;
