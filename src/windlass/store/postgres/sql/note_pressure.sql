-- Keeps the pressure on each queue that has a max_depth up to date [F4]. Callers: the store, with each promote. Lock: the rows
-- of queues whose pressure has changed.
CREATE OR REPLACE FUNCTION windlass.note_pressure() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    q          windlass.queue;
    v_pressure text;
BEGIN
    FOR q IN SELECT * FROM windlass.queue x WHERE x.max_depth IS NOT NULL OR x.pressure <> 'none' LOOP
        v_pressure := windlass.pressure_at(q, (SELECT l.depth FROM windlass.queue_load(q.name, q.max_depth, false) AS l));
        -- Only from what it was judged by: a producer may have found the queue full meanwhile.
        UPDATE windlass.queue x SET pressure = v_pressure
         WHERE v_pressure <> q.pressure AND x.name = q.name AND x.pressure = q.pressure;
    END LOOP;
END $$;
