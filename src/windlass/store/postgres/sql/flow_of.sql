-- How a queue stands by its flow control: {"pressure": ...} as of its depth now [F4], and of a governed one
-- {"rate": ..., "why": ...} [F2]. Callers: the store's readings. Lock: none. Volatile, so that set_queue's own answer shows what it has just set.
CREATE OR REPLACE FUNCTION windlass.flow_of(q windlass.queue) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    v_flow jsonb := jsonb_build_object('pressure', 'none');
BEGIN
    IF q.max_depth IS NOT NULL THEN
        v_flow := jsonb_build_object('pressure', windlass.pressure_now(q));
    END IF;
    IF q.governor THEN
        v_flow := v_flow || jsonb_build_object(
            'rate', (SELECT b.rate FROM windlass.budget b WHERE b.name = 'queue:' || q.name),
            'why', (SELECT g.state ->> 'why' FROM windlass.governor g WHERE g.queue = q.name));
    END IF;
    RETURN v_flow;
END $$;
