-- Seconds until the bucket behind a gate may let the first of its line out; infinite where it never will, NULL where nobody
-- stands there [F1]. Callers: sweep_gates. Lock: none. What is promised to those let out before comes on top, for as long as it
-- is kept for them; see Bucket.wait in windlass.core for where the bucket cannot hold as much. While one was let out to be the
-- probe of a half-open breaker nobody else is [F7].
CREATE OR REPLACE FUNCTION windlass.gate_wait(p_gate text) RETURNS float8
LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN p.n = 0 THEN windlass.bucket_wait(g.budget, g.key, h.need)
                ELSE least(CASE WHEN windlass.breaker_state(b, windlass.epoch()) <> 'closed' THEN 'Infinity'
                                WHEN b.burst BETWEEN h.need AND h.need + p.n - 1
                                THEN greatest(windlass.bucket_wait(g.budget, g.key, h.need), 0.02,
                                              CASE WHEN b.rate > 0 THEN b.burst / (2 * b.rate) ELSE 'Infinity' END)
                                ELSE windlass.bucket_wait(g.budget, g.key, h.need + p.n) END,
                           greatest(windlass.bucket_wait(g.budget, g.key, h.need), p.kept)) END
      FROM (SELECT x.need FROM windlass.held x WHERE x.gate = p_gate ORDER BY x.turn LIMIT 1) AS h
     CROSS JOIN (SELECT substr(p_gate, 8, strpos(p_gate, '/') - 8), substr(p_gate, strpos(p_gate, '/') + 1)) AS g (budget, key)
     CROSS JOIN (SELECT windlass.promised(p_gate),
                        (SELECT date_part('epoch', min(x.at) + interval '5 seconds' - windlass.now()) FROM windlass.pass x
                          WHERE x.gate = p_gate
                            AND x.at BETWEEN windlass.now() - interval '5 seconds' AND windlass.now() + interval '1 second')) AS p (n, kept)
      LEFT JOIN windlass.budget b ON b.name = g.budget
$$;
