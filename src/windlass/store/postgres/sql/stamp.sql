-- Notes what was migrated, and where: a copy elsewhere will know by that that it is one. Callers: migrate, the DDL that
-- `windlass sql` prints. Lock: the row of meta.
CREATE OR REPLACE FUNCTION windlass.stamp(
    p_version int, p_functions text, p_idempotency_retention float8 DEFAULT NULL, p_retention float8 DEFAULT NULL,
    p_size_limit bigint DEFAULT NULL, p_park_after int DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$
    UPDATE windlass.meta m
       SET version = p_version, functions = p_functions,
           idempotency_retention = coalesce(p_idempotency_retention, m.idempotency_retention),
           retention = coalesce(p_retention, m.retention), size_limit = coalesce(p_size_limit, m.size_limit),
           park_after = coalesce(p_park_after, m.park_after),
           system_identifier = coalesce(m.system_identifier, s.system_identifier),
           database = coalesce(m.database, d.oid), timeline = coalesce(m.timeline, windlass.timeline())
      FROM pg_control_system() AS s, pg_database d WHERE d.datname = current_database()
$$;
