-- The lanes of some queues with what a claimer needs to choose between them: priority, how long the head has
-- waited, whether there may be anything at all, whether its queue has a limit, whether fair jobs wait behind it.
-- Callers: the store's claim, at most once a second. Lock: none.
CREATE OR REPLACE FUNCTION windlass.lane_heads(p_queues text[])
RETURNS TABLE (lane int, queue text, priority smallint, waited float8, waiting boolean, limited boolean, ring boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off AS $$
BEGIN
    RETURN QUERY
    SELECT l.id, l.queue, l.priority, coalesce(date_part('epoch', windlass.now() - windlass.lane_head(l.id, 1)), 0),
           windlass.lane_depth(l.id) > 0, q.concurrency IS NOT NULL OR q.governor,
           EXISTS (SELECT FROM windlass.held h
                    WHERE h.queue = l.queue AND h.priority = l.priority AND h.fair_key IS NOT NULL OFFSET 0)
      FROM windlass.lane l JOIN windlass.queue q ON q.name = l.queue
     WHERE l.queue = ANY (p_queues) AND NOT q.paused
       AND (q.cool_until IS NULL OR windlass.cools(q) = 0);
END $$;
