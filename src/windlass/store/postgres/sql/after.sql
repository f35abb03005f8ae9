-- A moment some seconds from now, within a hundred years. Callers: again, lead, throttle. Lock: none.
CREATE OR REPLACE FUNCTION windlass.after(p_seconds float8) RETURNS timestamptz
LANGUAGE sql VOLATILE AS $$ SELECT windlass.now() + make_interval(secs => least(greatest(p_seconds, 0), 3155760000)) $$;
