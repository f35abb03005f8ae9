-- Keeps the pressure on each queue that has a max_depth up to date [F4]. Callers: the store, with each promote. Lock: the rows
-- of queues whose pressure has changed, by trying only.
CREATE OR REPLACE FUNCTION windlass.note_pressure() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    q          windlass.queue;
    v_pressure text;
BEGIN
    FOR q IN SELECT * FROM windlass.queue x WHERE x.max_depth IS NOT NULL OR x.pressure <> 'none' LOOP
        v_pressure := windlass.pressure_now(q);
        -- Only from what it was judged by: a producer may have found the queue full meanwhile.
        CONTINUE WHEN v_pressure = q.pressure;
        PERFORM FROM windlass.queue x WHERE x.name = q.name AND x.pressure = q.pressure FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            UPDATE windlass.queue x SET pressure = v_pressure WHERE x.name = q.name;
        END IF;
    END LOOP;
END $$;
