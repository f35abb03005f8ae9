-- Whether the term of a coordinator has not run out [K3]. None is longer than five minutes: one that ends later was written
-- before the clock went back, and is over. MOST_TERM in windlass.core.clock says the same. Callers: lead, check_term, assign.
-- Lock: none.
CREATE OR REPLACE FUNCTION windlass.term_runs(l windlass.leader) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT t.now < l.until AND l.until <= t.now + interval '301 seconds' FROM windlass.now() AS t (now)
$$;
