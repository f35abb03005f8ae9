-- Notes the pressure that somebody has seen on a queue, in a transaction of its own, unless another has noted something else
-- since: what was full, and when it fell, must not be forgotten between two promotes [F4]. Callers: the store, after an enqueue
-- that saw a change. Lock: the queue's row, by trying only: who cannot note it leaves it to promote.
CREATE OR REPLACE FUNCTION windlass.change_pressure(p_queue text, p_was text, p_is text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    UPDATE windlass.queue q SET pressure = p_is WHERE q.name = (SELECT x.name FROM windlass.queue x WHERE x.name = p_queue FOR NO KEY UPDATE SKIP LOCKED)
       AND q.pressure = p_was AND q.max_depth IS NOT NULL
$$;
