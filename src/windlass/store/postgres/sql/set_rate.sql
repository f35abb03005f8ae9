-- The rate at which a governed queue gives out jobs: its budget `queue:<queue>`, which may be ahead of it by a fifth of a second;
-- NULL: as fast as it can [F2]. Callers: govern, set_queue, with the queue's row locked. Lock: those of budget_change.
CREATE OR REPLACE FUNCTION windlass.set_rate(p_queue text, p_rate float8) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    b      windlass.budget;
    v_name text := 'queue:' || p_queue;
BEGIN
    IF p_rate IS NULL THEN
        PERFORM windlass.budget_lock(v_name);
        DELETE FROM windlass.bucket k WHERE k.budget = v_name;
        DELETE FROM windlass.budget x WHERE x.name = v_name;
        RETURN;
    END IF;
    SELECT * INTO b FROM windlass.budget x WHERE x.name = v_name;
    b.name := v_name;
    b.rate := p_rate;
    b.burst := greatest(1, p_rate / 5);
    b.breaker := 0;
    b.breaker_pause := 30;
    IF NOT windlass.budget_add(b) THEN
        PERFORM windlass.budget_change(b);
    END IF;
END $$;
