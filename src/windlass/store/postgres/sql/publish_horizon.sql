-- Publishes the oldest xid that may still own a hole: the oldest that holds a lock on ready [rule 3].
-- Callers: the store's promote, about once a second. Lock: none.
-- A foreign transaction, even in another database, holds back the cluster's xmin; it does not hold back this.
-- The own xid comes first. Whoever is not seen in pg_locks after that draws its numbers later, and no hole with
-- a horizon up to the own xid can be of its making.
CREATE OR REPLACE FUNCTION windlass.publish_horizon() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    v_own    bigint := pg_current_xact_id()::text::bigint;
    v_oldest bigint;
BEGIN
    SELECT min(windlass.full_xid(x.transactionid, v_own)) INTO v_oldest
      FROM pg_locks l
      JOIN pg_locks x ON x.virtualtransaction = l.virtualtransaction AND x.locktype = 'transactionid'
                     AND x.mode = 'ExclusiveLock' AND x.granted
     WHERE l.locktype = 'relation' AND l.relation = 'windlass.ready'::regclass
       AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND l.mode = 'RowExclusiveLock' AND l.granted;
    v_oldest := least(v_oldest, v_own);
    IF v_oldest > pg_sequence_last_value('windlass.horizon'::regclass) THEN
        PERFORM setval('windlass.horizon'::regclass, v_oldest, true);
    END IF;
    RETURN v_oldest;
END $$;
