-- The time. Callers: every function here. Lock: none.
-- One function tells it, so that a test can move it.
CREATE OR REPLACE FUNCTION windlass.now() RETURNS timestamptz
LANGUAGE sql VOLATILE AS $$ SELECT clock_timestamp() $$;
