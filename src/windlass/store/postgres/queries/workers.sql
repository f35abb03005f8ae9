-- Workers that are alive or have not been taken back yet. Callers: Reader.workers. Lock: none.
SELECT w.id, w.label, w.host, w.pid, w.queues, w.started_at, w.lease, l.alive, b.beat, b.at, t.vitals, t.vitals_at
  FROM windlass.worker w JOIN windlass.worker_life l USING (id) JOIN windlass.worker_beat b USING (id)
  LEFT JOIN windlass.teller t ON t.source = w.id
 WHERE l.alive OR NOT l.settled
 ORDER BY w.started_at, w.id
