-- Pauses or resumes a schedule, or says when it is due; what is NULL stays [K4]. No row: there is none of this name.
-- Callers: users, the store. Lock: the row.
CREATE OR REPLACE FUNCTION windlass.set_schedule(p_name text, p_paused boolean DEFAULT NULL, p_next_at float8 DEFAULT NULL)
RETURNS SETOF windlass.schedule
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    UPDATE windlass.schedule s SET paused = coalesce(p_paused, s.paused), next_at = coalesce(p_next_at, s.next_at)
     WHERE s.name = p_name RETURNING s.*
$$;
