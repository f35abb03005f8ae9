-- One bounded step of retention outside the logs [K6]. `more`: of something it took as much as one step may, so that there
-- may be more. Callers: the store. Lock: the rows it removes, by trying only [S2]: what others make new at this moment is not
-- old any more.
CREATE OR REPLACE FUNCTION windlass.expire(p_limit int, OUT dead bigint, OUT keys bigint, OUT workers bigint,
                                           OUT parents bigint, OUT more boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_sort = off SET jit = off AS $$
DECLARE
    v_now    timestamptz := windlass.now();
    v_parent bigint;
    v_parts  bigint;
    v_notes  bigint;
    v_saved  bigint;
    v_full   bigint;
    v_deaths bigint;
    v_marks  bigint;
BEGIN
    WITH old AS (
        SELECT d.id FROM windlass.queue q
         CROSS JOIN LATERAL (SELECT x.id FROM windlass.dead x
                              WHERE x.queue = q.name AND x.died_at <= v_now - make_interval(secs => q.dead_retention)
                              LIMIT p_limit FOR UPDATE SKIP LOCKED) AS d
         LIMIT p_limit)
    DELETE FROM windlass.dead d WHERE d.id = ANY (ARRAY(SELECT id FROM old));
    GET DIAGNOSTICS dead = ROW_COUNT;
    WITH old AS (
        SELECT i.key FROM windlass.idempotency i
         WHERE i.at <= v_now - make_interval(secs => (SELECT m.idempotency_retention FROM windlass.meta m WHERE m.single))
         ORDER BY i.at LIMIT p_limit FOR UPDATE SKIP LOCKED)
    DELETE FROM windlass.idempotency i WHERE i.key = ANY (ARRAY(SELECT key FROM old));
    GET DIAGNOSTICS keys = ROW_COUNT;
    DELETE FROM windlass.key_death k
     WHERE k.key = ANY (ARRAY(SELECT x.key FROM windlass.key_death x WHERE x.at <= v_now - interval '7 days'
                               ORDER BY x.at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_deaths = ROW_COUNT;
    parents := 0;
    FOR v_parent IN SELECT p.id FROM windlass.queue q CROSS JOIN windlass.meta m
                      JOIN windlass.parent p ON p.queue = q.name AND p.state <> 'waiting'
                       AND p.finished_at <= v_now - make_interval(secs => CASE WHEN p.state = 'dead' THEN q.dead_retention
                                                                           ELSE least(q.retention, m.retention) END)
                     LIMIT p_limit FOR UPDATE OF p SKIP LOCKED LOOP
        PERFORM windlass.drop_parent(v_parent);
        parents := parents + 1;
    END LOOP;
    v_parts := windlass.drop_parts(p_limit);
    DELETE FROM windlass.ended_otherwise o
     WHERE o.job = ANY (ARRAY(SELECT x.job FROM windlass.ended_otherwise x WHERE x.at <= v_now - interval '7 days'
                               ORDER BY x.at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_notes = ROW_COUNT;
    -- A worker's number may stand in claims for as long as the logs keep them; its rows may go sooner, for what is
    -- not there is not alive.
    WITH old AS (
        SELECT l.id FROM windlass.worker_life l JOIN windlass.worker_beat b ON b.id = l.id
         WHERE l.settled AND NOT l.alive AND b.at <= v_now - interval '1 day' LIMIT p_limit
           FOR UPDATE SKIP LOCKED),
    beats AS (DELETE FROM windlass.worker_beat b WHERE b.id IN (SELECT id FROM old)),
    infos AS (DELETE FROM windlass.worker w WHERE w.id IN (SELECT id FROM old))
    DELETE FROM windlass.worker_life l WHERE l.id IN (SELECT id FROM old);
    GET DIAGNOSTICS workers = ROW_COUNT;
    -- As in finish: the snapshot that says which jobs have ended must be younger than any rotation that moved them.
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    DELETE FROM windlass.cancel_request q
     WHERE q.job IN (SELECT x.job FROM windlass.cancel_request x
                      WHERE x.at < v_now - interval '1 minute'
                        AND NOT windlass.is_unfinished(x.job) LIMIT p_limit FOR UPDATE SKIP LOCKED);
    -- A worker that ends a job well names only the checkpoints that it has made or found itself.
    DELETE FROM windlass.checkpoint k
     WHERE k.job IN (SELECT x.job FROM windlass.checkpoint x
                      WHERE x.at < v_now - interval '1 day' AND NOT windlass.is_unfinished(x.job)
                        AND NOT EXISTS (SELECT FROM windlass.part t WHERE t.job = x.job)
                      LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS v_saved = ROW_COUNT;
    DELETE FROM windlass.order_mark m
     WHERE m.ctid = ANY (ARRAY(
        SELECT x.ctid FROM windlass.order_mark x
         WHERE x.at <= v_now - interval '30 days'
           AND NOT EXISTS (SELECT FROM windlass.held h WHERE h.gate = 'order:' || x.queue || '/' || x.key OFFSET 0)
           AND NOT EXISTS (SELECT FROM windlass.pass p WHERE p.gate = 'order:' || x.queue || '/' || x.key OFFSET 0)
         LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_marks = ROW_COUNT;
    DELETE FROM windlass.seq_set s
     WHERE NOT EXISTS (SELECT FROM windlass.cursor_of(s.lane) c WHERE s.id = ANY (c.spilled) OR s.id = ANY (c.ahead_spilled))
       AND s.id < (SELECT last_value - 1000 FROM windlass.seq_set_id);
    v_full := windlass.expire_buckets(p_limit);
    PERFORM setval('windlass.awaited'::regclass, 0, true);
    more := greatest(dead, keys, workers, parents, v_parts, v_notes, v_saved, v_full, v_deaths, v_marks) >= p_limit;
END $$;
