-- Removes buckets of keys that have been full for a minute, and those of budgets that are gone: one without a row is full.
-- Answers with how many. Callers: expire. Lock: the rows it removes, by trying only.
CREATE OR REPLACE FUNCTION windlass.expire_buckets(p_limit int) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_now   float8 := windlass.epoch();
    v_count bigint;
BEGIN
    WITH idle AS (
        SELECT k.budget, k.key FROM windlass.bucket k LEFT JOIN windlass.budget b ON b.name = k.budget
         WHERE b.name IS NULL
            OR k.key <> '' AND k.at < v_now - 60 AND (windlass.bucket_at(b, k, v_now - 60)).tokens >= b.burst
               -- What has no row has not seen the last drain of all.
               AND (b.drains = 0 OR b.rate * (v_now - 60 - b.drained_until) >= b.burst)
         LIMIT p_limit FOR UPDATE OF k SKIP LOCKED)
    DELETE FROM windlass.bucket k USING idle i WHERE k.budget = i.budget AND k.key = i.key;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;
