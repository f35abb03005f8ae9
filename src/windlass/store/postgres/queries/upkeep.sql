-- Which steps of moving jobs into lanes have anything to do, so that an idle cluster asks once and not five times.
-- Callers: PostgresStore.promote. Lock: none.
SELECT EXISTS (SELECT FROM windlass.unsettled) AS settle_rest,
       EXISTS (SELECT FROM windlass.deferred WHERE replaces IS NOT NULL) AS replace_step,
       EXISTS (SELECT FROM windlass.held) AS admit
