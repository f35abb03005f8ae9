-- Takes tokens of a budget by hand, all or none [F1]: whether they were granted, and if not, in how many seconds it makes sense
-- to ask again. Callers: users, the store. Lock: the bucket's row until the transaction ends, so outside of long ones.
CREATE OR REPLACE FUNCTION windlass.take_tokens(
    p_budget text, p_n int DEFAULT 1, p_key text DEFAULT '', OUT granted boolean, OUT wait float8)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    IF p_n IS NULL OR p_n < 1 OR EXISTS (SELECT FROM windlass.budget b WHERE b.name = p_budget AND b.burst < p_n) THEN
        RAISE EXCEPTION '% tokens of budget % can never be granted at once', p_n, p_budget USING ERRCODE = 'WL005',
            HINT = 'Take at least 1 and at most its burst, or raise its burst.';
    END IF;
    granted := position(':' IN p_budget) = 0 AND windlass.bucket_take(p_budget, left(p_key, 255), p_n, true) = p_n;
    -- A budget that nobody has declared yet may be declared at any moment.
    wait := CASE WHEN granted THEN 0 WHEN EXISTS (SELECT FROM windlass.budget b WHERE b.name = p_budget)
                 THEN windlass.bucket_wait(p_budget, left(p_key, 255), p_n) ELSE 5 END;
END $$;
