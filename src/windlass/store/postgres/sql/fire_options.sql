-- The options of the job that a schedule makes for a time, with headers that say so [K4]. Callers: fire_schedule. Lock: none.
CREATE OR REPLACE FUNCTION windlass.fire_options(s windlass.schedule, p_time float8) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT (coalesce(s.options::jsonb, '{}') || jsonb_build_object('headers',
                coalesce(s.options::jsonb -> 'headers', '{}') || jsonb_build_object(
                    'windlass-schedule', s.name,
                    'windlass-scheduled-for',
                    to_char(to_timestamp(p_time) AT TIME ZONE 'UTC',
                            CASE WHEN p_time = floor(p_time) THEN 'YYYY-MM-DD"T"HH24:MI:SS"+00:00"'
                                 ELSE 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"' END))))::text
$$;
