-- The jobs a worker holds, by claim. Callers: Reader.held, after worker_alone. Lock: none.
SELECT h.claim, l.id AS lane, l.queue, l.priority, (h.ready).seq AS seq, windlass.job_of(h.ready) AS id,
       (h.ready).task AS task, (h.ready).payload AS payload, (h.ready).options AS options,
       (h.ready).attempt AS attempt, (h.ready).deaths AS deaths,
       date_part('epoch', windlass.enqueued_of(h.ready)) AS enqueued, date_part('epoch', (h.ready).offered_at) AS offered
  FROM windlass.holdings($1) AS h JOIN windlass.lane l ON l.id = (h.ready).lane
 ORDER BY h.claim, seq
