-- Gates that jobs wait at, those where the first has waited longest first; of very many lines the first 2,000 by name are
-- looked at. Callers: the store's gates. Lock: none. What is counted is counted up to 10,000.
CREATE OR REPLACE FUNCTION windlass.list_gates(p_limit int)
RETURNS TABLE (name text, passes bigint, waiting bigint, oldest float8)
LANGUAGE sql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    SELECT g.name, (SELECT count(*) FROM (SELECT FROM windlass.pass p WHERE p.gate = g.name LIMIT 10000) AS x),
           (SELECT count(*) FROM (SELECT FROM windlass.held h WHERE h.gate = g.name LIMIT 10000) AS x),
           date_part('epoch', windlass.now() - g.since)
      FROM (SELECT n.name, h.since
              FROM unnest(windlass.next_lines('', NULL, '', 2000)) AS n (name)
             CROSS JOIN LATERAL (SELECT x.since FROM windlass.held x WHERE x.gate = n.name ORDER BY x.turn LIMIT 1) AS h
             ORDER BY h.since, n.name COLLATE "C" LIMIT p_limit) AS g
     ORDER BY g.since, g.name COLLATE "C"
$$;
