-- Whether this is a copy that was not adopted yet, or a sequence was set back. Callers: adopt, the store at open.
-- Lock: none.
CREATE OR REPLACE FUNCTION windlass.must_adopt() RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    SELECT m.system_identifier IS DISTINCT FROM s.system_identifier OR m.database IS DISTINCT FROM d.oid
        OR EXISTS (SELECT FROM windlass.lane l CROSS JOIN LATERAL windlass.cursor_of(l.id) AS c
                    WHERE coalesce(pg_sequence_last_value(l.position), 0)
                              < greatest(c.hi, upper(windlass.gather(c.ahead, c.ahead_spilled)) - 1)
                       OR pg_sequence_last_value('windlass.claim_id'::regclass) < c.id)
      FROM windlass.meta m, pg_control_system() AS s, pg_database d WHERE d.datname = current_database()
$$;
