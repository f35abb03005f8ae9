-- Tells the breaker of a budget how runs went that used it, and answers with how it stands then [F7]. Callers: users, the store.
-- Lock: the budget's row, where something changes: good news of a closed breaker without failures costs a look.
-- The same as Breaker.told in windlass.core.
CREATE OR REPLACE FUNCTION windlass.tell_budget(
    p_budget text, p_succeeded bigint, p_failed bigint, p_now float8 DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    b          windlass.budget;
    v_now      float8;
    v_failures bigint;
BEGIN
    SELECT * INTO b FROM windlass.budget x WHERE x.name = p_budget;
    IF NOT FOUND OR b.breaker = 0 THEN
        RETURN 'closed';
    ELSIF p_failed > 0 OR p_succeeded > 0 AND (b.openings > 0 OR b.failures > 0) THEN
        SELECT * INTO b FROM windlass.budget x WHERE x.name = p_budget FOR NO KEY UPDATE;
    END IF;
    v_now := windlass.epoch(p_now);
    -- Open: late news of runs from before.
    IF p_succeeded + p_failed > 0 AND windlass.breaker_state(b, v_now) <> 'open' AND b.breaker > 0 THEN
        IF p_failed = 0 THEN
            UPDATE windlass.budget x SET failures = 0, openings = 0, until = 0, probing = false
             WHERE x.name = p_budget AND (x.failures > 0 OR x.openings > 0);
            RETURN 'closed';
        END IF;
        v_failures := CASE WHEN p_succeeded > 0 THEN p_failed ELSE b.failures + p_failed END;
        IF b.probing OR v_failures >= b.breaker THEN
            b.openings := least(b.openings, 1000000) + 1;
            b.probing := false;
            b.until := v_now + windlass.breaker_length(b.breaker_pause, b.openings);
        END IF;
        UPDATE windlass.budget x SET failures = v_failures, openings = b.openings, probing = b.probing, until = b.until
         WHERE x.name = p_budget;
    END IF;
    RETURN windlass.breaker_state(b, v_now);
END $$;
