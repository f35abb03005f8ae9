-- Where in the lanes of a queue (NULL: of all) jobs of a state can stand; a state of NULL stands for any. Callers: list_lanes.
-- Lock: none. Ready ones stand beyond the cursor and in its holes, ended ones behind it or taken ahead of it, running ones in
-- the claims of workers that are not settled, above their floor (as in depth; OFFSET 0 is a fence [rule 8]). Not all that stands
-- there need be in that state: list_judged says.
CREATE OR REPLACE FUNCTION windlass.list_spans(p_queue text, p_state text)
RETURNS TABLE (lane int, span int8multirange)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    c windlass.claim;
BEGIN
    IF p_state IS NULL THEN
        RETURN QUERY
        SELECT l.id, int8multirange(int8range(NULL, NULL)) FROM windlass.lane l WHERE p_queue IS NULL OR l.queue = p_queue;
    ELSIF p_state IN ('running', 'splitting') THEN
        RETURN QUERY
        SELECT l.id, range_agg(h.open)
          FROM windlass.worker_life w
          JOIN windlass.worker_beat b ON b.id = w.id
         CROSS JOIN LATERAL (SELECT x.lane, windlass.unfinished(x.id, x.seqs) AS open
                               FROM windlass.claim x
                              WHERE x.worker = w.id AND x.n > 0 AND x.worker <> 0 AND x.id >= b.floor OFFSET 0) AS h
          JOIN windlass.lane l ON l.id = h.lane
         WHERE NOT w.settled AND (p_queue IS NULL OR l.queue = p_queue) GROUP BY l.id;
    ELSE
        FOR lane IN SELECT l.id FROM windlass.lane l WHERE p_queue IS NULL OR l.queue = p_queue LOOP
            c := windlass.cursor_of(lane);
            span := CASE WHEN p_state = 'ready'
                         THEN windlass.gather(coalesce(c.young, '{}') + coalesce(c.old, '{}'), c.spilled)
                              + int8multirange(int8range(c.hi + 1, NULL))
                         ELSE windlass.gather(c.ahead, c.ahead_spilled) + int8multirange(int8range(NULL, c.hi + 1)) END;
            RETURN NEXT;
        END LOOP;
    END IF;
END $$;
