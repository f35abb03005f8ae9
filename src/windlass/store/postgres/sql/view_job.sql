-- Every job in every state, one row each. Lock: none. A look-up by id goes through windlass.locate, which is faster.
CREATE OR REPLACE VIEW windlass.job AS
SELECT windlass.job_of(r) AS id, r.task, l.queue, l.priority,
       CASE WHEN o.kind IS NOT NULL THEN o.kind WHEN c.id IS NOT NULL THEN 'running' ELSE 'ready' END AS state,
       r.attempt, r.deaths, r.payload, r.options, windlass.enqueued_of(r) AS enqueued_at, NULL::timestamptz AS run_at, c.claimed_at,
       o.at AS finished_at, nullif(c.worker, 0) AS worker, c.id AS claim, NULL::text AS reason
  FROM windlass.ready r
  JOIN windlass.lane l ON l.id = r.lane
  JOIN windlass.queue q ON q.name = l.queue
  LEFT JOIN LATERAL windlass.place_claim(r.lane, r.seq) AS c ON true
  LEFT JOIN LATERAL windlass.place_outcome(c.id, r.seq) AS o ON true
 WHERE o.kind IS NULL
    OR o.kind IN ('succeeded', 'cancelled')
       AND (q.retention IS NULL OR o.at > windlass.now() - make_interval(secs => q.retention))
UNION ALL
SELECT d.id, d.task, d.queue, d.priority, CASE WHEN d.retrying THEN 'retrying' ELSE 'scheduled' END, d.attempt, d.deaths,
       d.payload, d.options, d.enqueued_at, d.run_at, NULL, NULL, NULL, NULL, windlass.put_off_for(d)
  FROM windlass.deferred d
UNION ALL
SELECT h.id, h.task, h.queue, h.priority, 'ready', h.attempt, h.deaths, h.payload, h.options, h.enqueued_at, NULL, NULL, NULL, NULL,
       NULL, NULL
  FROM windlass.held h
UNION ALL
SELECT d.id, d.task, d.queue, d.priority, 'dead', d.attempt, d.deaths, d.payload, d.options, d.enqueued_at, NULL, NULL,
       d.died_at, NULL, NULL, d.reason
  FROM windlass.dead d;
