-- The version of this schema and the fingerprint of its functions. Callers: every role that opens the store. Lock: none.
CREATE OR REPLACE FUNCTION windlass.schema_version(OUT version int, OUT functions text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    SELECT m.version, m.functions FROM windlass.meta m
$$;
