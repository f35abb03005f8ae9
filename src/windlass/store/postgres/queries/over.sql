-- Budgets that jobs need more of than they can hold, with the largest need, counted up to 1,000 [F1]. Callers: diagnosis.
-- Lock: none.
SELECT split_part(substr(l.gate, 6), '/', 1) AS budget, sum(h.n) AS waiting, max(h.need) AS need
  FROM unnest(windlass.next_lines('over:', 'over;', '', 100)) AS l (gate)
 CROSS JOIN LATERAL (SELECT count(*) AS n, max(x.need) AS need
                       FROM (SELECT y.need FROM windlass.held y WHERE y.gate = l.gate LIMIT 1000) AS x) AS h
 GROUP BY 1 ORDER BY 1
