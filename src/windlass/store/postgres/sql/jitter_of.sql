-- By how many seconds the job that a schedule makes for a time is put off: a share of its jitter that name and time decide
-- [K4]. Callers: fire_schedule. Lock: none.
CREATE OR REPLACE FUNCTION windlass.jitter_of(s windlass.schedule, p_time float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN s.jitter > 0
                THEN s.jitter * (hashtextextended(s.name || '/' || p_time, 0) & 4294967295) / 4294967296.0 END
$$;
