-- What hangs on jobs: result, failures, cancel request, checkpoint. $1 ids, $2 their states. Callers: Reader. Lock: none.
SELECT coalesce(r.result, p.result) AS result,
       CASE WHEN d.id IS NOT NULL THEN d.errors ELSE windlass.failures_of(j.id) END AS errors,
       q.job IS NOT NULL OR coalesce(p.cancelling, false) AS cancel, k.data, k.done, k.total, k.at
  FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS j (id, state, i)
  LEFT JOIN LATERAL (SELECT x.result FROM windlass.result x
                      WHERE x.job = j.id AND j.state = 'succeeded' ORDER BY x.at DESC LIMIT 1) AS r ON true
  LEFT JOIN windlass.dead d ON d.id = j.id AND j.state = 'dead'
  LEFT JOIN windlass.parent p ON p.id = j.id AND j.state NOT IN ('running', 'splitting')
  LEFT JOIN windlass.cancel_request q ON q.job = j.id AND j.state IN ('running', 'splitting')
  LEFT JOIN windlass.checkpoint k ON k.job = j.id
 ORDER BY j.i
