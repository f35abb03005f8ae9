-- The ordering keys of a queue, by key, or only one of them, up to p_limit: how far each has come, and what has not ended of it
-- [F6]. Callers: the store's watermarks. Lock: none. What is counted is counted up to 10,000.
CREATE OR REPLACE FUNCTION windlass.list_watermarks(p_queue text, p_key text, p_limit int)
RETURNS TABLE (key text, "position" bigint, at timestamptz, waiting bigint, age float8)
LANGUAGE sql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    WITH keys AS (
        (SELECT m.key FROM windlass.order_mark m WHERE m.queue = p_queue AND (p_key IS NULL OR m.key = p_key)
          ORDER BY m.key LIMIT p_limit)
        UNION
        -- Keys whose first job waits for its turn have no mark yet.
        SELECT substr(n.gate, length(p_queue) + 8)
          FROM unnest(CASE WHEN p_key IS NULL THEN windlass.next_lines('order:' || p_queue || '/', 'order:' || p_queue || '0', '', p_limit)
                           ELSE ARRAY['order:' || p_queue || '/' || p_key] END) AS n (gate)
         WHERE p_key IS NULL OR EXISTS (SELECT FROM windlass.held h WHERE h.gate = n.gate OFFSET 0))
    SELECT k.key, greatest(coalesce(m.position, 0) - p.n, 0), coalesce(m.at, l.oldest, windlass.now()), l.n + p.n,
           date_part('epoch', windlass.now() - least(l.oldest, p.oldest))
      FROM (SELECT x.key COLLATE "C" AS key FROM keys x ORDER BY 1 LIMIT p_limit) AS k
      LEFT JOIN LATERAL (SELECT x.position, x.at FROM windlass.order_mark x WHERE x.queue = p_queue AND x.key = k.key LIMIT 1) AS m
        ON true
     CROSS JOIN LATERAL (SELECT count(*) AS n, min(y.enqueued_at) AS oldest
                           FROM (SELECT h.enqueued_at FROM windlass.held h WHERE h.gate = 'order:' || p_queue || '/' || k.key
                                  ORDER BY h.turn LIMIT 9999) AS y) AS l
     CROSS JOIN LATERAL (SELECT count(*) AS n, min(x.enqueued_at) AS oldest
                           FROM windlass.pass x WHERE x.gate = 'order:' || p_queue || '/' || k.key) AS p
     ORDER BY k.key
$$;
