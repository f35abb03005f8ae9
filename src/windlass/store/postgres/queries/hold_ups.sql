-- Transactions that have been open for more than $1 seconds and hold what others want: locks of lanes, gates, queues or budgets,
-- and rows of tables that chores write; as far as this role may see who they are [S2]. Callers: diagnosis, health, rotation. Lock: none.
-- Not those of the logs, which hold up nobody but the rotation (see blocked_rotation), nor what a handler's own transaction keeps
-- of its worker, nor tables that are only added to. The first key of an advisory lock is the oid of a table: see lock_space.
SELECT CASE WHEN a.pid IS NULL THEN format('prepared transaction %L of %s', p.gid, p.owner)
            ELSE format('process %s of %s (%s)', a.pid, a.usename, coalesce(nullif(a.application_name, ''), a.backend_type)) END AS who,
       date_part('epoch', clock_timestamp() - coalesce(a.xact_start, p.prepared)) AS seconds, h.what
  FROM (SELECT l.pid, l.virtualtransaction AS transaction,
               string_agg(DISTINCT CASE WHEN l.locktype = 'relation' THEN 'rows of ' || c.relname
                                        WHEN c.relname = 'lane' THEN 'a lane of queue ' || coalesce(n.queue, '?')
                                        WHEN c.relname = 'lane_id' THEN 'a lane that it declares'
                                        WHEN c.relname = 'held' THEN 'a gate' ELSE 'a lock of ' || c.relname END, ', ') AS what
          FROM pg_locks l
          JOIN pg_class c ON c.oid = CASE WHEN l.locktype = 'advisory' AND l.objsubid = 2
                                          THEN (l.classid::bigint + 2147483648) % 4294967296 ELSE l.relation::bigint END
          LEFT JOIN windlass.lane n ON l.locktype = 'advisory' AND n.id = l.objid::bigint
         WHERE l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
           AND l.locktype IN ('advisory', 'relation') AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
           AND l.mode <> 'AccessShareLock'
           AND c.relnamespace = (SELECT m.relnamespace FROM pg_class m WHERE m.oid = 'windlass.meta'::regclass)
           AND (l.locktype = 'advisory' OR c.relkind = 'r' AND NOT c.relispartition)
           AND c.relname NOT IN ('worker_life', 'checkpoint', 'stirred_gate', 'ended_otherwise', 'part_event', 'cancel_request')
         GROUP BY l.pid, l.virtualtransaction) AS h
  LEFT JOIN pg_stat_activity a ON a.pid = h.pid
  LEFT JOIN pg_locks x ON h.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = h.transaction AND x.locktype = 'transactionid'
  LEFT JOIN pg_prepared_xacts p ON p.transaction = x.transactionid
 WHERE coalesce(a.xact_start, p.prepared) < clock_timestamp() - make_interval(secs => $1)
 ORDER BY seconds DESC
