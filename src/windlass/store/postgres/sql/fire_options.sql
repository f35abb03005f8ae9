-- The options of the job that a schedule makes for a time, with headers that say so [K4]. p_behind: the job of the same schedule
-- that it comes after, however that ends. Callers: fire_schedule. Lock: none.
CREATE OR REPLACE FUNCTION windlass.fire_options(s windlass.schedule, p_time float8, p_behind bigint) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT (coalesce(s.options::jsonb, '{}') || jsonb_build_object('headers',
                coalesce(s.options::jsonb -> 'headers', '{}') || jsonb_build_object(
                    'windlass-schedule', s.name,
                    'windlass-scheduled-for',
                    to_char(to_timestamp(p_time) AT TIME ZONE 'UTC',
                            CASE WHEN p_time = floor(p_time) THEN 'YYYY-MM-DD"T"HH24:MI:SS"+00:00"'
                                 ELSE 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"' END)))
            || CASE WHEN p_behind IS NULL THEN '{}'
                    ELSE jsonb_build_object('after', jsonb_build_array(p_behind), 'otherwise', 'run') END)::text
$$;
