-- Every table of the schema, with its size, indexes included, and what the statistics say of its rows; of a partition the log
-- and the segment it belongs to. Callers: Health. Lock: ACCESS SHARE on each for a moment.
SELECT coalesce(p.relname, c.relname)::text AS name,
       CASE WHEN p.oid IS NOT NULL THEN substring(c.relname FROM '[0-9]+$')::int END AS segment,
       pg_total_relation_size(c.oid) AS bytes, pg_stat_get_live_tuples(c.oid) AS rows, pg_stat_get_dead_tuples(c.oid) AS dead
  FROM pg_class c
  LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
  LEFT JOIN pg_class p ON p.oid = i.inhparent
 WHERE c.relkind = 'r' AND c.relnamespace = (SELECT m.relnamespace FROM pg_class m WHERE m.oid = 'windlass.meta'::regclass)
 ORDER BY 1, 2
