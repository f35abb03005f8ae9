-- Notes how long the store took to answer lately, as the coordinator saw it: a measure of shed_latency, for 30 s [F5].
-- Callers: the store. Lock: the one row.
CREATE OR REPLACE FUNCTION windlass.observe(p_latency float8) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    UPDATE windlass.observed SET latency = p_latency, at = windlass.epoch()
$$;
