-- Empties one bucket of a budget, or with a key of NULL all of them, which then grant nothing for so many seconds [F1].
-- Callers: users, the store. Lock: the bucket's row; of all: the budget's, since each takes it in when it is next used.
-- The same as Bucket.drained in windlass.core.
CREATE OR REPLACE FUNCTION windlass.drain_budget(
    p_budget text, p_pause float8, p_key text DEFAULT NULL, p_now float8 DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    b       windlass.budget;
    k       windlass.bucket;
    v_now   float8;
    v_pause float8 := least(greatest(p_pause, 0), 3155760000);
BEGIN
    p_budget := CASE WHEN position(':' IN p_budget) = 0 THEN p_budget ELSE '' END;  -- not that of a queue's governor
    v_now := windlass.epoch(p_now);
    IF p_key IS NULL THEN
        UPDATE windlass.budget x
           SET drains = x.drains + 1,
               drained_at = CASE WHEN x.drained_at > v_now + 1 THEN v_now ELSE greatest(x.drained_at, v_now) END,
               drained_until = greatest(x.drained_until - CASE WHEN x.drained_at > v_now + 1 THEN x.drained_at - v_now ELSE 0 END,
                                        v_now + v_pause)
         WHERE x.name = p_budget;
        IF FOUND THEN
            RETURN;
        END IF;
    ELSE
        k := windlass.bucket_lock(p_budget, left(p_key, 255));
        SELECT * INTO b FROM windlass.budget x WHERE x.name = p_budget;
        IF FOUND THEN
            v_now := windlass.epoch(p_now);
            k := windlass.bucket_at(b, k, v_now);
            k.blocked_until := greatest(k.blocked_until, v_now + v_pause);
            UPDATE windlass.bucket x SET tokens = 0, at = k.at, blocked_until = k.blocked_until,
                   drains = k.drains
             WHERE x.budget = p_budget AND x.key = k.key;
            RETURN;
        END IF;
    END IF;
    RAISE EXCEPTION 'there is no budget %', quote_nullable(p_budget) USING ERRCODE = 'WL005',
        HINT = 'Declare it, or give it a rate to make it.';
END $$;
