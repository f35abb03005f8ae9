-- Keeps what the governor of a queue decided; its claims give out no more than the rate, over the whole cluster, from then on
-- [F2] [K3]. Callers: the store. Lock: the leader row FOR SHARE, the queue's row, by trying only, the
-- governor's row, then those of budget_change. Where the governor was switched off meanwhile, or somebody is about to, nothing is
-- kept.
CREATE OR REPLACE FUNCTION windlass.govern(p_term bigint, p_queue text, p_state jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' SET jit = off AS $$
BEGIN
    PERFORM windlass.check_term(p_term);
    PERFORM FROM windlass.queue q WHERE q.name = p_queue AND q.governor FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
        INSERT INTO windlass.governor AS g (queue, state) VALUES (p_queue, p_state)
        ON CONFLICT (queue) DO UPDATE SET state = excluded.state;
        PERFORM windlass.set_rate(p_queue, (p_state ->> 'rate')::float8);
    END IF;
END $$;
