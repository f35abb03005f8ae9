-- Ends jobs that wait in no lane (scheduled, retrying, held aside), as cancelled or deleted. Answers with those it ended.
-- Jobs that are to replace others are left to end_waiting. Callers: the store, with jobs that are no parts. Lock: ACCESS SHARE
-- on claim, as in finish; the lanes of these jobs, in order; then their rows, by trying only.
-- To be shown as cancelled they are offered and taken at once, as in end_waiting, each lane's in one go.
CREATE OR REPLACE FUNCTION windlass.end_aside(p_jobs bigint[], p_kind text) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    g       record;
    v_plain bigint[];
    v_lanes int[];
    v_late  bigint[];
    v_held  bigint[];
    v_rows  windlass.held[];
BEGIN
    PERFORM windlass.require_read_committed();
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    v_plain := ARRAY(SELECT u.id FROM unnest(p_jobs) AS u (id)
                      WHERE NOT EXISTS (SELECT FROM windlass.part t WHERE t.job = u.id OFFSET 0)
                        AND NOT EXISTS (SELECT FROM windlass.parent p WHERE p.id = u.id OFFSET 0));
    IF p_kind = 'cancelled' THEN
        v_lanes := ARRAY(SELECT windlass.lane_sure(w.queue, w.priority)
                           FROM (SELECT d.queue, d.priority FROM unnest(v_plain) AS u (id)
                                  CROSS JOIN LATERAL (SELECT x.queue, x.priority FROM windlass.deferred x
                                                       WHERE x.id = u.id AND x.replaces IS NULL OFFSET 0) AS d
                                  UNION
                                 SELECT h.queue, h.priority FROM unnest(v_plain) AS u (id)
                                  CROSS JOIN LATERAL (SELECT x.queue, x.priority FROM windlass.held x WHERE x.id = u.id OFFSET 0) AS h
                                  ORDER BY queue) AS w);
        PERFORM windlass.lane_lock(l.lane) FROM (SELECT u.lane FROM unnest(v_lanes) AS u (lane) ORDER BY u.lane OFFSET 0) AS l;
    END IF;
    v_late := ARRAY(SELECT d.id FROM windlass.deferred d WHERE d.id = ANY (v_plain) AND d.replaces IS NULL
                      FOR UPDATE SKIP LOCKED);
    v_held := ARRAY(SELECT h.id FROM windlass.held h WHERE h.id = ANY (v_plain) FOR UPDATE SKIP LOCKED);
    WITH gone AS (DELETE FROM windlass.deferred d WHERE d.id = ANY (v_late) RETURNING d.*),
         freed AS (DELETE FROM windlass.held h WHERE h.id = ANY (v_held) RETURNING h.*)
    SELECT array_agg(x.r) INTO v_rows
      FROM (SELECT ROW (d.id, 0, d.enqueued_at, d.enqueued_at, d.priority, d.attempt, d.deaths, d.queue, NULL, d.task, d.payload,
                        d.options, NULL, 1)::windlass.held AS r FROM gone d
             UNION ALL
            SELECT ROW (f.*)::windlass.held FROM freed f) AS x;
    IF v_rows IS NULL THEN
        RETURN '{}';
    END IF;
    FOR g IN
        SELECT windlass.lane_sure(u.queue, u.priority) AS lane, count(*)::int AS n, array_agg(u.task) AS tasks,
               array_agg(u.payload::text) AS payloads, array_agg(u.options::text) AS options, array_agg(u.id) AS ids,
               array_agg(u.attempt) AS attempts, array_agg(u.deaths) AS deaths, array_agg(u.enqueued_at) AS enqueued
          FROM unnest(v_rows) AS u
         WHERE p_kind = 'cancelled'
         GROUP BY u.queue, u.priority ORDER BY lane
    LOOP
        PERFORM windlass.take_ahead(
            g.lane,
            windlass.offer(g.lane, g.n, g.tasks, g.payloads, g.options, g.ids, g.attempts, g.deaths, g.enqueued),
            p_kind);
    END LOOP;
    v_late := ARRAY(SELECT u.id FROM unnest(v_rows) AS u);
    PERFORM windlass.settle(v_late, NULL, NULL, p_kind);
    RETURN v_late;
END $$;
