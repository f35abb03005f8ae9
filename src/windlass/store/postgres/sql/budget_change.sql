-- Gives a budget other settings: what its buckets have grown so far counts by the old ones [F1]. Callers: set_budget,
-- set_rate.
-- Lock: that of budget_lock, then the rows of its buckets by key, then its own: whoever holds a bucket's row sees either all of
-- the old or all of the new. The same as Bucket.changed in windlass.core.
CREATE OR REPLACE FUNCTION windlass.budget_change(p_new windlass.budget, p_now float8 DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    b     windlass.budget;
    v_now float8;
BEGIN
    PERFORM windlass.budget_lock(p_new.name);
    PERFORM FROM windlass.bucket k WHERE k.budget = p_new.name ORDER BY k.key FOR UPDATE;
    SELECT * INTO b FROM windlass.budget x WHERE x.name = p_new.name;
    v_now := windlass.epoch(p_now);
    UPDATE windlass.bucket k SET (tokens, at, blocked_until, drains) =
           (SELECT least(r.tokens, p_new.burst), r.at, r.blocked_until, r.drains FROM windlass.bucket_at(b, k, v_now) AS r)
     WHERE k.budget = p_new.name;
    UPDATE windlass.budget x SET rate = p_new.rate, burst = p_new.burst, key = p_new.key, breaker = p_new.breaker,
           breaker_pause = p_new.breaker_pause
     WHERE x.name = p_new.name;
    -- There may be enough room now for those who need more than it could hold.
    PERFORM windlass.stir_gates(windlass.next_lines('over:' || p_new.name || '/', 'over:' || p_new.name || '0', '', 100), true);
END $$;
