-- How many jobs of each task wait in a lane, of its first p_most; `capped`: there are more. Callers: task_depths. Lock: none.
-- An index scan beyond the cursor, after what has appeared in holes: while a queue is paused, nobody else looks there.
CREATE OR REPLACE FUNCTION windlass.lane_tasks(p_lane int, p_most int)
RETURNS TABLE (task text, n bigint, capped boolean)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    c       windlass.claim := windlass.cursor_of(p_lane);
    v_ahead int8multirange := windlass.gather(c.ahead, c.ahead_spilled);
    v_holes int8multirange := '{}';
    v_deep  boolean := windlass.lane_depth(p_lane) > p_most;
BEGIN
    IF c.holes > 0 THEN
        v_holes := windlass.gather(coalesce(c.young, '{}') + coalesce(c.old, '{}'), c.spilled);
    END IF;
    RETURN QUERY
    SELECT f.task, count(*), v_deep AND sum(count(*)) OVER () >= p_most
      FROM ((SELECT w.task
               FROM unnest(v_holes) AS hole (span)
              CROSS JOIN LATERAL (SELECT r.task FROM windlass.ready r
                                   WHERE r.lane = p_lane AND r.seq >= lower(hole.span) AND r.seq < upper(hole.span)
                                   ORDER BY r.seq LIMIT p_most) AS w
              LIMIT p_most)
             UNION ALL
            (SELECT r.task FROM windlass.ready r
              WHERE r.lane = p_lane AND r.seq > c.hi AND NOT r.seq <@ v_ahead ORDER BY r.seq LIMIT p_most)
             LIMIT p_most) AS f
     GROUP BY f.task;
END $$;
