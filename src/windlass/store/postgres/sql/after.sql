-- A moment some seconds from now. Callers: again, enqueue_one. Lock: none.
CREATE OR REPLACE FUNCTION windlass.after(p_seconds float8) RETURNS timestamptz
LANGUAGE sql VOLATILE AS $$ SELECT windlass.now() + make_interval(secs => p_seconds) $$;
