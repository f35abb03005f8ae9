-- Which steps of moving jobs into lanes have anything to do, so that an idle cluster asks once and not five times.
-- Callers: the store's promote. Lock: none.
CREATE OR REPLACE FUNCTION windlass.upkeep(
    OUT settle_rest boolean, OUT clock_back boolean, OUT replace_step boolean, OUT admit boolean, OUT stirred boolean, OUT passes boolean,
    OUT pressure boolean, OUT follow boolean, OUT advance boolean, OUT sweep boolean, OUT cancel boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    SELECT EXISTS (SELECT FROM windlass.unsettled),
           EXISTS (SELECT FROM windlass.deferred_watermark WHERE run_at > windlass.now() + interval '1 second'),
           EXISTS (SELECT FROM windlass.deferred WHERE replaces IS NOT NULL),
           EXISTS (SELECT FROM windlass.held), EXISTS (SELECT FROM windlass.stirred_gate), EXISTS (SELECT FROM windlass.pass),
           EXISTS (SELECT FROM windlass.queue q WHERE q.max_depth IS NOT NULL OR q.pressure <> 'none'),
           EXISTS (SELECT FROM windlass.after_edge), EXISTS (SELECT FROM windlass.part_event),
           EXISTS (SELECT FROM windlass.part p WHERE p.state = 'out'),
           EXISTS (SELECT FROM windlass.cancel_request q
                    CROSS JOIN LATERAL (SELECT FROM windlass.parent p WHERE p.id = q.job AND p.state = 'waiting' LIMIT 1) AS p)
      INTO settle_rest, clock_back, replace_step, admit, stirred, passes, pressure, follow, advance, sweep, cancel;
END $$;
