-- The timeline that the server writes, which a promotion and a restore to a point in time change; NULL where a service does not
-- tell. Callers: adopt, must_adopt, stamp. Lock: none.
CREATE OR REPLACE FUNCTION windlass.timeline() RETURNS int
LANGUAGE plpgsql AS $$
BEGIN
    RETURN ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int;
EXCEPTION WHEN feature_not_supported OR insufficient_privilege OR object_not_in_prerequisite_state THEN
    RETURN NULL;
END $$;
