-- Jobs newest first, filtered, after a cursor. Callers: Reader.jobs. Lock: none.
SELECT id, task, queue, priority, state, attempt, deaths, payload, options, enqueued_at, run_at, claimed_at, finished_at,
       worker, claim, reason
  FROM windlass.job
 WHERE ($1::text IS NULL OR queue = $1) AND ($2::text IS NULL OR task = $2) AND ($3::text IS NULL OR state = $3)
   AND ($4::text IS NULL OR (options -> 'tags')::jsonb ? $4)
   AND ($5::timestamptz IS NULL OR (enqueued_at, id) < ($5, $6::bigint))
 ORDER BY enqueued_at DESC, id DESC LIMIT $7
