-- How full a queue is, where it has a max_depth [F4]: {"fill": ..., "was": ..., "is": ...}, the pressure that was noted last and
-- that of now; NULL below 70 % where they are the same. Callers: enqueue_mixed, the store and the adapters, with each enqueue. Lock: none. A queue
-- without a max_depth costs one look at its row.
CREATE OR REPLACE FUNCTION windlass.pressure_of(p_queue text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    q       windlass.queue;
    v_depth bigint;
    v_is    text;
BEGIN
    SELECT * INTO q FROM windlass.queue x WHERE x.name = p_queue AND x.max_depth IS NOT NULL;
    IF FOUND THEN
        SELECT l.depth INTO v_depth FROM windlass.queue_load(p_queue, ceil(q.max_depth * 1.2)::bigint, false) AS l;
        v_is := windlass.pressure_at(q, v_depth);
        IF v_is <> q.pressure THEN
            SELECT l.depth INTO v_depth FROM windlass.queue_load(p_queue, ceil(q.max_depth * 1.2)::bigint, false, true) AS l;
            v_is := windlass.pressure_at(q, v_depth);
        END IF;
        IF v_is <> q.pressure OR v_depth >= q.max_depth * 0.7 THEN
            RETURN json_build_object('fill', v_depth::float8 / q.max_depth, 'was', q.pressure, 'is', v_is);
        END IF;
    END IF;
    RETURN NULL;
END $$;
