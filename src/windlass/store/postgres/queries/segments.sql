-- Every segment of the logs. Callers: Health. Lock: none.
SELECT s.no, date_part('epoch', s.opened_at) AS opened_at,
       CASE WHEN s.no = pg_sequence_last_value('windlass.segment_current'::regclass) THEN 'open'
            WHEN s.empty THEN 'empty' ELSE 'closed' END AS state
  FROM windlass.segment s ORDER BY s.no
