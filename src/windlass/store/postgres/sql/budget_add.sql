-- Adds a budget, full, unless there is one of this name; true if it did [F1]. Callers: declare_budget, set_budget, set_rate.
-- Lock: that of budget_lock. The row of its bucket for all is made with it, and stays.
CREATE OR REPLACE FUNCTION windlass.budget_add(b windlass.budget) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM windlass.budget_lock(b.name);
    INSERT INTO windlass.budget (name, rate, burst, key, breaker, breaker_pause)
    VALUES (b.name, b.rate, b.burst, b.key, coalesce(b.breaker, 0), coalesce(b.breaker_pause, 30)) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM windlass.bucket k WHERE k.budget = b.name;
    INSERT INTO windlass.bucket (budget, key, tokens, at) VALUES (b.name, '', b.burst, windlass.epoch());
    RETURN true;
END $$;
