-- What hangs on jobs: result, failures, cancel request, checkpoint. $1 ids, $2 their states. Callers: Reader. Lock: none.
-- Each is looked up by its index, job by job (LIMIT 1 and OFFSET 0 are fences [rule 8]); most jobs have none of them.
SELECT coalesce(r.result, p.result) AS result,
       CASE WHEN d.errors IS NOT NULL THEN d.errors
            WHEN EXISTS (SELECT FROM windlass.failure f WHERE f.job = j.id OFFSET 0) THEN windlass.failures_of(j.id) END AS errors,
       q.job IS NOT NULL OR coalesce(p.cancelling, false) AS cancel, k.data, k.done, k.total, k.at
  FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS j (id, state, i)
  LEFT JOIN LATERAL (SELECT x.result FROM windlass.result x
                      WHERE x.job = j.id AND j.state = 'succeeded' ORDER BY x.at DESC LIMIT 1) AS r ON true
  LEFT JOIN LATERAL (SELECT x.errors FROM windlass.dead x WHERE x.id = j.id AND j.state = 'dead' LIMIT 1) AS d ON true
  LEFT JOIN LATERAL (SELECT x.result, x.cancelling FROM windlass.parent x
                      WHERE x.id = j.id AND j.state NOT IN ('running', 'splitting') LIMIT 1) AS p ON true
  LEFT JOIN LATERAL (SELECT x.job FROM windlass.cancel_request x
                      WHERE x.job = j.id AND j.state IN ('running', 'splitting') LIMIT 1) AS q ON true
  LEFT JOIN LATERAL (SELECT x.data, x.done, x.total, x.at FROM windlass.checkpoint x WHERE x.job = j.id LIMIT 1) AS k ON true
 ORDER BY j.i
