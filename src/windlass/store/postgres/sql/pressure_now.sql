-- The pressure on a queue as it stands [F4]. Callers: note_pressure, flow_of. Lock: none. Where positions say that there is some,
-- what has committed is looked at: see lane_seen.
CREATE OR REPLACE FUNCTION windlass.pressure_now(q windlass.queue) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_pressure text := windlass.pressure_at(q, (SELECT l.depth FROM windlass.queue_load(q.name, q.max_depth, false) AS l));
BEGIN
    IF v_pressure <> 'none' THEN
        v_pressure := windlass.pressure_at(q, (SELECT l.depth FROM windlass.queue_load(q.name, q.max_depth, false, true) AS l));
    END IF;
    RETURN v_pressure;
END $$;
