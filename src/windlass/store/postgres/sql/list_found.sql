-- Jobs that are not in a lane, by their ids and as the view job shows them. Callers: the store's listing. Lock: none.
CREATE OR REPLACE FUNCTION windlass.list_found(p_deferred bigint[], p_held bigint[], p_dead bigint[], p_parents bigint[])
RETURNS TABLE (id bigint, task text, queue text, priority smallint, state text, attempt smallint, deaths smallint, payload json,
               options json, enqueued_at timestamptz, run_at timestamptz, claimed_at timestamptz, finished_at timestamptz,
               worker bigint, claim bigint, reason text)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    RETURN QUERY
    SELECT d.id, d.task, d.queue, d.priority, CASE WHEN d.retrying THEN 'retrying' ELSE 'scheduled' END, d.attempt, d.deaths,
           d.payload, d.options, d.enqueued_at, CASE WHEN d.run_at = 'infinity' THEN d.not_before ELSE d.run_at END,
           NULL::timestamptz, NULL::timestamptz, NULL::bigint, NULL::bigint, windlass.put_off_for(d)
      FROM windlass.deferred d WHERE d.id = ANY (p_deferred)
    UNION ALL
    SELECT h.id, h.task, h.queue, h.priority, 'ready', h.attempt, h.deaths, h.payload, h.options, h.enqueued_at, NULL, NULL, NULL,
           NULL, NULL, windlass.gate_reason(h.gate) COLLATE "default"
      FROM windlass.held h WHERE h.id = ANY (p_held)
    UNION ALL
    SELECT d.id, d.task, d.queue, d.priority, 'dead', d.attempt, d.deaths, d.payload, d.options, d.enqueued_at, NULL, NULL,
           d.died_at, NULL, NULL, d.reason
      FROM windlass.dead d WHERE d.id = ANY (p_dead)
    UNION ALL
    SELECT p.id, p.task, p.queue, p.priority, p.state, p.attempt, p.deaths, p.payload, p.options, p.enqueued_at, NULL, NULL,
           p.finished_at, NULL, NULL, p.reason
      FROM windlass.parent p JOIN windlass.queue q ON q.name = p.queue
     WHERE p.id = ANY (p_parents)
       AND (p.state IN ('waiting', 'dead') OR q.retention IS NULL
            OR p.finished_at > windlass.now() - make_interval(secs => q.retention));
END $$;
