-- The pressure on a queue at a depth, which remembers: it rises at 70 % and 100 %, and falls at 60 % [F4]. The same as in
-- windlass.core.admission. Callers: judge_load, pressure_now, pressure_of. Lock: none.
CREATE OR REPLACE FUNCTION windlass.pressure_at(q windlass.queue, p_depth bigint) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN q.max_depth IS NULL THEN 'none'
                WHEN p_depth >= q.max_depth OR q.pressure = 'full' AND p_depth::float8 / q.max_depth > 0.6 THEN 'full'
                WHEN p_depth::float8 / q.max_depth >= 0.7
                  OR q.pressure <> 'none' AND p_depth::float8 / q.max_depth > 0.6 THEN 'soft'
                ELSE 'none' END
$$;
