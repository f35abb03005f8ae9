-- Which steps of moving jobs into lanes have anything to do, so that an idle cluster asks once and not five times.
-- Callers: PostgresStore.promote. Lock: none.
SELECT EXISTS (SELECT FROM windlass.unsettled) AS settle_rest,
       EXISTS (SELECT FROM windlass.deferred_watermark WHERE run_at > windlass.now() + interval '1 second') AS clock_back,
       EXISTS (SELECT FROM windlass.deferred WHERE replaces IS NOT NULL) AS replace_step,
       EXISTS (SELECT FROM windlass.held) AS admit,
       EXISTS (SELECT FROM windlass.stirred_gate) AS stirred,
       EXISTS (SELECT FROM windlass.pass) AS passes,
       EXISTS (SELECT FROM windlass.queue WHERE max_depth IS NOT NULL OR pressure <> 'none') AS pressure,
       EXISTS (SELECT FROM windlass.after_edge) AS follow,
       EXISTS (SELECT FROM windlass.part_event) AS advance,
       EXISTS (SELECT FROM windlass.part WHERE state = 'out') AS sweep,
       EXISTS (SELECT FROM windlass.cancel_request q JOIN windlass.parent p ON p.id = q.job
                WHERE p.state = 'waiting') AS cancel
