-- Every job in every state, one row each. Lock: none. A look-up by id goes through windlass.locate, which is faster.
-- parent, part, parts: which part of which parent it is, from 0, and of how many; -1 is the finalizer [P4]. See job_part
-- and job_parent for more about these.
CREATE OR REPLACE VIEW windlass.job AS
SELECT windlass.job_of(r) AS id, r.task, l.queue, l.priority,
       windlass.shown_as(o.kind, c.id, r.options) AS state,
       r.attempt, r.deaths, r.payload, r.options, windlass.enqueued_of(r) AS enqueued_at, NULL::timestamptz AS run_at, c.claimed_at,
       o.at AS finished_at, nullif(c.worker, 0) AS worker, c.id AS claim, NULL::text AS reason,
       (r.options #>> '{part,parent}')::bigint AS parent, (r.options #>> '{part,index}')::int AS part,
       (r.options #>> '{part,total}')::int AS parts
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
       d.payload, d.options, d.enqueued_at, CASE WHEN d.run_at = 'infinity' THEN d.not_before ELSE d.run_at END, NULL, NULL,
       NULL, NULL, windlass.put_off_for(d), (d.options #>> '{part,parent}')::bigint, (d.options #>> '{part,index}')::int,
       (d.options #>> '{part,total}')::int
  FROM windlass.deferred d
UNION ALL
SELECT h.id, h.task, h.queue, h.priority, 'ready', h.attempt, h.deaths, h.payload, h.options, h.enqueued_at, NULL, NULL, NULL, NULL,
       NULL, windlass.gate_reason(h.gate) COLLATE "default", (h.options #>> '{part,parent}')::bigint, (h.options #>> '{part,index}')::int,
       (h.options #>> '{part,total}')::int
  FROM windlass.held h
UNION ALL
SELECT d.id, d.task, d.queue, d.priority, 'dead', d.attempt, d.deaths, d.payload, d.options, d.enqueued_at, NULL, NULL,
       d.died_at, NULL, NULL, d.reason, (d.options #>> '{part,parent}')::bigint, (d.options #>> '{part,index}')::int,
       (d.options #>> '{part,total}')::int
  FROM windlass.dead d
UNION ALL
SELECT p.id, p.task, p.queue, p.priority, p.state, p.attempt, p.deaths, p.payload, p.options, p.enqueued_at, NULL, NULL,
       p.finished_at, NULL, NULL, p.reason, (p.options #>> '{part,parent}')::bigint, (p.options #>> '{part,index}')::int,
       (p.options #>> '{part,total}')::int
  FROM windlass.parent p
  JOIN windlass.queue q ON q.name = p.queue
 WHERE p.state IN ('waiting', 'dead') OR q.retention IS NULL
    OR p.finished_at > windlass.now() - make_interval(secs => q.retention);
