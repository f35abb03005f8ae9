-- Gives back tokens that were taken p_age seconds ago and not used [F1]. Callers: users, the store. Lock: the bucket's row.
CREATE OR REPLACE FUNCTION windlass.give_tokens(p_budget text, p_n int, p_key text DEFAULT '', p_age float8 DEFAULT 0)
RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    SELECT windlass.bucket_give(p_budget, left(p_key, 255), p_n, NULL, p_age)
     WHERE position(':' IN p_budget) = 0 AND p_n > 0
$$;
