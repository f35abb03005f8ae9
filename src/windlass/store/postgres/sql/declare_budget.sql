-- Adds a budget as code declares it; one that exists stays as it is, whoever changed it [F1]. Callers: users, the store.
-- Lock: that of budget_lock, where it is new.
CREATE OR REPLACE FUNCTION windlass.declare_budget(
    p_name text, p_rate float8, p_burst float8, p_key text DEFAULT NULL, p_breaker bigint DEFAULT 0,
    p_breaker_pause float8 DEFAULT 30)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    b windlass.budget;
BEGIN
    IF EXISTS (SELECT FROM windlass.budget x WHERE x.name = p_name) THEN
        RETURN false;
    END IF;
    PERFORM windlass.check_budget(p_name, jsonb_build_object('rate', p_rate, 'burst', p_burst, 'breaker', p_breaker,
                                                            'breaker_pause', p_breaker_pause));
    b.name := p_name;
    b.rate := p_rate;
    b.burst := p_burst;
    b.key := p_key;
    b.breaker := p_breaker;
    b.breaker_pause := p_breaker_pause;
    RETURN windlass.budget_add(b);
END $$;
