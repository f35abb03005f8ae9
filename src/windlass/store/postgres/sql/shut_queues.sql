-- The queues whose jobs nobody runs at this time: paused, or served by none of those who work. A worker that names no queue may
-- serve any; where nobody works at all, nobody is kept from anything [F3]. Callers: admit_gate, admit_shut. Lock: none.
CREATE OR REPLACE FUNCTION windlass.shut_queues() RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_served text[];
    v_any    boolean;
BEGIN
    SELECT array_agg(DISTINCT q), bool_or(w.queues = '{}') INTO v_served, v_any
      FROM windlass.worker_life l JOIN windlass.worker w ON w.id = l.id LEFT JOIN LATERAL unnest(w.queues) AS q ON true
     WHERE l.alive;
    RETURN ARRAY(SELECT q.name FROM windlass.queue q WHERE q.paused OR NOT v_any AND q.name <> ALL (v_served));
END $$;
