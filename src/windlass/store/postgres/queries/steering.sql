-- What a host needs to know each second: all queues, the slots of its workers ($1), who serves what [K1] [K2].
-- Callers: Reader.steering. Lock: none. One statement, so one snapshot.
SELECT (SELECT json_object_agg(q.name, to_jsonb(q) || jsonb_build_object('window', q.lane_window,
                                                                         'cooling', windlass.cools(q))
                                       || windlass.flow_of(q))
          FROM windlass.queue q) AS queues,
       (SELECT json_object_agg(w.worker, w.slots)
          FROM (SELECT s.worker, json_object_agg(s.queue, s.slots) AS slots
                  FROM windlass.slot s WHERE s.worker = ANY ($1::bigint[]) GROUP BY s.worker) AS w) AS slots,
       (SELECT json_object_agg(a.queue, a.n)
          FROM (SELECT u.queue, count(DISTINCT w.id) AS n
                  FROM windlass.worker w JOIN windlass.worker_life l USING (id) CROSS JOIN unnest(w.queues) AS u (queue)
                 WHERE l.alive GROUP BY u.queue) AS a) AS serving
