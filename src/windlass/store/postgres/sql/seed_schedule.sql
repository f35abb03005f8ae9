-- Declares a schedule [K4]. A new one is due at p_next_at; one that exists takes the new definition, and p_next_at and p_error
-- only where cron or tz have changed, or where it is never due: what was wrong with them here may be mended by now.
-- p_definition: columns of windlass.schedule; payload and options are text, to be kept as they were written.
-- Callers: the store. Lock: the row.
CREATE OR REPLACE FUNCTION windlass.seed_schedule(
    p_definition jsonb, p_payload text, p_options text, p_next_at float8, p_error text)
RETURNS windlass.schedule
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    d windlass.schedule := jsonb_populate_record(NULL::windlass.schedule, p_definition);
    s windlass.schedule;
BEGIN
    INSERT INTO windlass.schedule AS x (name, cron, tz, task, payload, queue, priority, options, missed, overlap, grace, jitter,
                                        next_at, error)
    VALUES (d.name, d.cron, d.tz, d.task, p_payload::json, d.queue, d.priority, p_options::json, d.missed, d.overlap,
            d.grace, d.jitter, p_next_at, p_error)
    ON CONFLICT (name) DO UPDATE
       SET cron = d.cron, tz = d.tz, task = d.task, payload = p_payload::json, queue = d.queue, priority = d.priority,
           options = p_options::json, missed = d.missed, overlap = d.overlap, grace = d.grace, jitter = d.jitter,
           next_at = CASE WHEN (x.cron, x.tz) = (d.cron, d.tz) AND x.next_at IS NOT NULL THEN x.next_at ELSE p_next_at END,
           error = CASE WHEN (x.cron, x.tz) = (d.cron, d.tz) AND x.next_at IS NOT NULL THEN x.error ELSE p_error END
    RETURNING * INTO s;
    RETURN s;
END $$;
