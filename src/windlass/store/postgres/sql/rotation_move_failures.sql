-- Moves the failures of jobs that have not ended out of the victim, in bounded steps; and the word that failures are
-- forgotten (attempt 0), while a segment that was passed over still holds some of them [O1].
-- Callers: the store's rotate, after the seal. Lock: the rotation row; pins the current segment.
CREATE OR REPLACE FUNCTION windlass.rotation_move_failures(
    p_turn bigint, p_after bigint, p_limit int, OUT moved int, OUT next_after bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    r windlass.rotation;
    v_current smallint;
BEGIN
    r := windlass.rotation_lock(p_turn);
    v_current := windlass.pin_segment();
    WITH jobs AS MATERIALIZED (
        SELECT DISTINCT f.job FROM (SELECT x.job FROM windlass.failure x WHERE x.segment = r.victim AND x.job > p_after
                                     ORDER BY x.job LIMIT p_limit) AS f),
    gone AS (
        DELETE FROM windlass.failure d USING jobs j
         WHERE d.segment = r.victim AND d.job = j.job
           AND (windlass.is_unfinished(j.job)
                OR d.attempt = 0 AND EXISTS (SELECT FROM windlass.failure f
                                              WHERE f.job = j.job AND f.attempt > 0 AND f.segment <> r.victim))
        RETURNING d.*),
    put AS (
        INSERT INTO windlass.failure (segment, job, at, attempt, type, message, traceback)
        SELECT v_current, job, at, attempt, type, message, traceback FROM gone RETURNING 1)
    SELECT (SELECT count(*) FROM put), (SELECT max(job) FROM jobs) INTO moved, next_after;
END $$;
