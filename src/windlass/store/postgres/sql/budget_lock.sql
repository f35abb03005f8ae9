-- Makes those who change a budget wait for each other. Callers: budget_add, budget_change, set_budget, set_rate,
-- drop_budget.
-- Lock: advisory, (oid of the budget table, hash of the name), until the transaction ends; before the rows of its buckets and
-- then its own, in the order in which a taker locks them.
CREATE OR REPLACE FUNCTION windlass.budget_lock(p_budget text) RETURNS void
LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(('windlass.budget'::regclass::oid::bigint - 2147483648)::int, hashtext(p_budget))
$$;
