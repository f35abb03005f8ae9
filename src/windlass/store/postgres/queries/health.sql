-- How the server and the store are doing, by what anybody may read; of snapshots as far as this role may see: where it does
-- not see all and sees none, that is NULL. Callers: Health. Lock: none. News are counted up to $1, those
-- with ids above $2; `lowest` is the first of them or, where there is none, the one that comes next, by what was given out.
SELECT current_setting('server_version') AS version, current_setting('max_connections')::int AS most_connections,
       (SELECT sum(d.numbackends)::int FROM pg_stat_database d) AS connections,
       coalesce((SELECT max(date_part('epoch', clock_timestamp() - a.xact_start)) FROM pg_stat_activity a
                  WHERE a.backend_xmin IS NOT NULL AND a.pid <> pg_backend_pid()),
                CASE WHEN pg_has_role('pg_read_all_stats', 'USAGE') THEN 0 END) AS oldest_snapshot,
       r.blocked, date_part('epoch', r.blocked_since) AS blocked_since,
       (SELECT date_part('epoch', l.until) FROM windlass.leader l WHERE isfinite(l.until)) AS coordinator_until,
       n.news, coalesce(n.lowest, n.given + 1) AS lowest
  FROM windlass.rotation r
 CROSS JOIN (SELECT g.given, count(x.id) AS news, min(x.id) AS lowest
               FROM (SELECT coalesce(pg_sequence_last_value('windlass.news_id_seq'::regclass), 0) AS given) AS g
               LEFT JOIN LATERAL (SELECT y.id FROM windlass.news y WHERE y.id > $2 ORDER BY y.id LIMIT $1) AS x ON true
              GROUP BY g.given) AS n
