-- Who has held the server's xmin back for more than $1 seconds, as far as this role may see. Callers: diagnosis.
-- Lock: none.
SELECT format('process %s of %s (%s)', a.pid, coalesce(a.usename::text, 'the server'),
              coalesce(nullif(a.application_name, ''), a.backend_type)) AS who,
       date_part('epoch', clock_timestamp() - a.xact_start) AS seconds
  FROM pg_stat_activity a
 WHERE (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
   AND a.xact_start < clock_timestamp() - make_interval(secs => $1)
UNION ALL
SELECT format('prepared transaction %L of %s', p.gid, p.owner), date_part('epoch', clock_timestamp() - p.prepared)
  FROM pg_prepared_xacts p
 WHERE p.prepared < clock_timestamp() - make_interval(secs => $1)
 ORDER BY seconds DESC
