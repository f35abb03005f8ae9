-- The ordering keys of queue $1, by key, with $2 only that one, up to $3: how far each has come, and what has not ended of it
-- [F6]. Callers: Gates.watermarks. Lock: none. What is counted is counted up to 10,000.
WITH keys AS (
    (SELECT m.key FROM windlass.order_mark m WHERE m.queue = $1 AND ($2::text IS NULL OR m.key = $2) ORDER BY m.key LIMIT $3)
    UNION
    -- Keys whose first job waits for its turn have no mark yet.
    SELECT substr(n.gate, length($1) + 8)
      FROM unnest(CASE WHEN $2::text IS NULL THEN windlass.next_lines('order:' || $1 || '/', 'order:' || $1 || '0', '', $3::int)
                       ELSE ARRAY['order:' || $1 || '/' || $2] END) AS n (gate)
     WHERE $2::text IS NULL OR EXISTS (SELECT FROM windlass.held h WHERE h.gate = n.gate OFFSET 0))
SELECT k.key, greatest(coalesce(m.position, 0) - p.n, 0) AS position, coalesce(m.at, l.oldest, windlass.now()) AS at,
       l.n + p.n AS waiting, date_part('epoch', windlass.now() - least(l.oldest, p.oldest)) AS age
  FROM (SELECT x.key COLLATE "C" AS key FROM keys x ORDER BY 1 LIMIT $3) AS k
  LEFT JOIN windlass.order_mark m ON m.queue = $1 AND m.key = k.key
 CROSS JOIN LATERAL (SELECT count(*) AS n, min(y.enqueued_at) AS oldest
                       FROM (SELECT h.enqueued_at FROM windlass.held h WHERE h.gate = 'order:' || $1 || '/' || k.key
                              ORDER BY h.turn LIMIT 9999) AS y) AS l
 CROSS JOIN LATERAL (SELECT count(*) AS n, min(x.enqueued_at) AS oldest
                       FROM windlass.pass x WHERE x.gate = 'order:' || $1 || '/' || k.key) AS p
 ORDER BY k.key
