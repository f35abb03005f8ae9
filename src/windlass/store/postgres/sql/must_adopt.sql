-- Why the store must be adopted before it goes on, or NULL [rule 15] [S3]. 'copy': it was restored or replicated elsewhere, or
-- a sequence was set back. 'promotion': it is on another timeline. 'crash': the server has recovered, and may have lost what
-- it had acknowledged. Callers: adopt, the store at open. Lock: none. On a standby there is
-- nothing to adopt yet.
CREATE OR REPLACE FUNCTION windlass.must_adopt() RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    m windlass.meta;
BEGIN
    IF pg_is_in_recovery() THEN
        RETURN NULL;
    END IF;
    SELECT * INTO m FROM windlass.meta;
    IF m.system_identifier IS DISTINCT FROM (SELECT s.system_identifier FROM pg_control_system() AS s)
       OR m.database IS DISTINCT FROM (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
       OR EXISTS (SELECT FROM windlass.lane l WHERE to_regclass(l.position) IS NULL OR to_regclass(l.idle) IS NULL) THEN
        RETURN 'copy';
    ELSIF EXISTS (SELECT FROM windlass.lane l CROSS JOIN LATERAL windlass.cursor_of(l.id) AS c
                   WHERE coalesce(pg_sequence_last_value(l.position), 0)
                             < greatest(c.hi, upper(windlass.gather(c.ahead, c.ahead_spilled)) - 1)
                      OR pg_sequence_last_value('windlass.claim_id'::regclass) < c.id) THEN
        RETURN 'copy';
    ELSIF windlass.epoch_here() IS DISTINCT FROM m.epoch THEN
        RETURN CASE WHEN m.timeline IS DISTINCT FROM windlass.timeline() THEN 'promotion' ELSE 'crash' END;
    END IF;
    RETURN NULL;
END $$;
