-- Offers jobs that waited aside, each in its lane, in order; how long they have waited stays.
-- Callers: admit_gates, admit_ring, retry_many. Lock: those of offer.
CREATE OR REPLACE FUNCTION windlass.offer_held(p_rows windlass.held[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    g record;
BEGIN
    FOR g IN
        SELECT u.queue, u.priority, count(*)::int AS n, array_agg(u.task ORDER BY u.i) AS tasks,
               array_agg(u.payload::text ORDER BY u.i) AS payloads, array_agg(u.options::text ORDER BY u.i) AS options,
               array_agg(u.id ORDER BY u.i) AS ids, array_agg(u.attempt ORDER BY u.i) AS attempts,
               array_agg(u.deaths ORDER BY u.i) AS deaths, array_agg(u.enqueued_at ORDER BY u.i) AS enqueued,
               array_agg(u.since ORDER BY u.i) AS since
          FROM unnest(p_rows) WITH ORDINALITY
            AS u (id, turn, since, enqueued_at, priority, attempt, deaths, queue, fair_key, task, payload, options, gate, need, i)
         GROUP BY u.queue, u.priority ORDER BY u.queue
    LOOP
        PERFORM windlass.offer(windlass.lane_sure(g.queue, g.priority), g.n, g.tasks, g.payloads, g.options, g.ids,
                               g.attempts, g.deaths, g.enqueued, g.since);
    END LOOP;
END $$;
