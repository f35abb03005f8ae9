-- Takes the locks of all lanes that some jobs wait in, in the order of the lanes, so that two who do this cannot meet
-- crosswise. Callers: cancel_parent, end_waiting. Lock: those lanes.
CREATE OR REPLACE FUNCTION windlass.lock_lanes_of(p_jobs bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_lane int;
BEGIN
    FOR v_lane IN
        SELECT (p.ready).lane AS lane FROM unnest(p_jobs) AS j CROSS JOIN LATERAL windlass.locate(j) AS p WHERE p.claim IS NULL
         UNION
        SELECT windlass.lane_for(w.queue, w.priority)
          FROM (SELECT d.queue, d.priority FROM windlass.deferred d WHERE d.id = ANY (p_jobs)
                 UNION ALL
                SELECT h.queue, h.priority FROM windlass.held h WHERE h.id = ANY (p_jobs)) AS w
         ORDER BY lane
    LOOP
        CONTINUE WHEN v_lane IS NULL;
        PERFORM windlass.lane_lock(v_lane);
    END LOOP;
END $$;
