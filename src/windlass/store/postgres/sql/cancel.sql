-- Cancels a job [O5]: 'cancelled', 'requested' (it runs, and its worker is told; or it is a parent, and its parts are),
-- 'finished' or 'not_found'. Callers: users, the store, fire_schedule. Lock: those of cancel_job or
-- cancel_parent.
CREATE OR REPLACE FUNCTION windlass.cancel(job bigint) RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    SELECT coalesce(windlass.cancel_parent(job), windlass.cancel_job(job))
$$;
