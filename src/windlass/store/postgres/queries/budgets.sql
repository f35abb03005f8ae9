-- Every budget but those of governors, or the one called $1: settings, its bucket for all, its breaker [F1] [F7]. How many wait
-- is counted up to 10,000. Callers: Budgets. Lock: none.
SELECT b.name, b.rate, b.burst, b.key, b.breaker, b.breaker_pause, b.failures, greatest(0, k.tokens) AS tokens,
       windlass.breaker_state(b, t.now) AS state,
       greatest(0, k.blocked_until - t.now, windlass.breaker_left(b, t.now)) AS blocked,
       (SELECT count(*) FROM (SELECT FROM windlass.held h
                               WHERE h.gate >= 'budget:' || b.name || '/' AND h.gate < 'budget:' || b.name || '0'
                               LIMIT 10000) AS w)
       + (SELECT count(*) FROM (SELECT FROM windlass.held h
                                 WHERE h.gate >= 'over:' || b.name || '/' AND h.gate < 'over:' || b.name || '0'
                                 LIMIT 10000) AS w) AS waiting
  FROM windlass.epoch() AS t (now) CROSS JOIN windlass.budget b
 CROSS JOIN LATERAL windlass.bucket_at(b, windlass.bucket_of(b, ''), t.now) AS k
 WHERE position(':' IN b.name) = 0 AND ($1::text IS NULL OR b.name = $1)
 ORDER BY b.name COLLATE "C"
