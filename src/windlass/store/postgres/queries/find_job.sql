-- One job by its id, wherever it is. Callers: Reader.job. Lock: none.
-- On its way from one place to the next a job is in exactly one of them in any snapshot, hence one statement.
SELECT p.id, p.task, l.queue, l.priority, p.state, p.attempt, p.deaths, p.payload, p.options, p.enqueued_at,
       NULL::timestamptz AS run_at, p.claimed_at, p.finished_at, p.worker, p.claim, NULL::text AS reason
  FROM (SELECT windlass.job_of(x.ready) AS id, (x.ready).lane AS lane, (x.ready).task AS task,
               windlass.shown_as(x.kind, x.claim, (x.ready).options) AS state,
               (x.ready).attempt AS attempt, (x.ready).deaths AS deaths, (x.ready).payload AS payload,
               (x.ready).options AS options, windlass.enqueued_of(x.ready) AS enqueued_at,
               x.claimed_at, x.finished_at, nullif(x.worker, 0) AS worker, x.claim
          FROM windlass.locate($1) AS x) AS p
  JOIN windlass.lane l ON l.id = p.lane
  JOIN windlass.queue q ON q.name = l.queue
 WHERE q.retention IS NULL OR p.finished_at IS NULL
    OR p.finished_at > windlass.now() - make_interval(secs => q.retention)
UNION ALL
SELECT id, task, queue, priority, CASE WHEN retrying THEN 'retrying' ELSE 'scheduled' END, attempt, deaths, payload,
       options, enqueued_at, CASE WHEN run_at = 'infinity' THEN not_before ELSE run_at END, NULL, NULL, NULL, NULL,
       windlass.put_off_for(deferred)
  FROM windlass.deferred WHERE id = $1
UNION ALL
SELECT id, task, queue, priority, 'ready', attempt, deaths, payload, options, enqueued_at, NULL, NULL, NULL, NULL, NULL,
       windlass.gate_reason(gate)
  FROM windlass.held WHERE id = $1
UNION ALL
SELECT id, task, queue, priority, 'dead', attempt, deaths, payload, options, enqueued_at, NULL, NULL, died_at, NULL, NULL,
       reason
  FROM windlass.dead WHERE id = $1
UNION ALL
SELECT p.id, p.task, p.queue, p.priority, p.state, p.attempt, p.deaths, p.payload, p.options, p.enqueued_at, NULL, NULL,
       p.finished_at, NULL, NULL, p.reason
  FROM windlass.parent p JOIN windlass.queue q ON q.name = p.queue
 WHERE p.id = $1 AND (p.state IN ('waiting', 'dead') OR q.retention IS NULL
                      OR p.finished_at > windlass.now() - make_interval(secs => q.retention))
