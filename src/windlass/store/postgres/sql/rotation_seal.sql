-- NULL once nobody can add ready, failure or result rows to the victim any more; else, in words, who still can.
-- Callers: the store's rotate. Lock: the rotation row.
-- A writer reads the current number again after it has locked the partition (pin_segment). So with another segment
-- current, whoever may still write into this one shows in pg_locks, and nobody new can join.
CREATE OR REPLACE FUNCTION windlass.rotation_seal(p_turn bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    r windlass.rotation;
    v_who text;
BEGIN
    r := windlass.rotation_lock(p_turn);
    SELECT string_agg(coalesce('process ' || l.pid, 'a prepared transaction') || ' holds ' || l.mode, ', ') INTO v_who
      FROM pg_locks l
     WHERE l.locktype = 'relation' AND l.relation = format('windlass.%I', 'ready_' || r.victim)::regclass
       AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND l.mode NOT IN ('AccessShareLock', 'RowShareLock') AND l.pid IS DISTINCT FROM pg_backend_pid();
    UPDATE windlass.rotation SET blocked = v_who,
           blocked_since = CASE WHEN v_who IS NULL THEN NULL ELSE coalesce(blocked_since, windlass.now()) END
     WHERE blocked IS DISTINCT FROM v_who;
    RETURN v_who;
END $$;
