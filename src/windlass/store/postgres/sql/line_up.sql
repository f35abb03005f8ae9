-- Takes the keys of a call that adds several jobs, in one order and before anything is added: of two calls that share keys one
-- waits at the first of them, and never holds what the other waits for [E6] [E7].
-- Callers: enqueue_mixed. Lock: the rows of the keys until the transaction ends.
-- Idempotency keys come first, as they do in enqueue_one. A key that has no row gets one of job 0, which is nobody's: remember
-- and hold_key take it over, and enqueue_one removes what it did not need. A key that is too long is refused there.
CREATE OR REPLACE FUNCTION windlass.line_up(p_idempotency text[], p_unique text[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    -- An update of nothing locks the row all the same.
    INSERT INTO windlass.idempotency AS i (key, job, at)
    SELECT DISTINCT k COLLATE "C", 0, timestamptz '-infinity' FROM unnest(p_idempotency) AS k WHERE octet_length(k) <= 1020
     ORDER BY 1
    ON CONFLICT (key) DO UPDATE SET job = i.job WHERE false;
    INSERT INTO windlass.unique_key AS u (key, job)
    SELECT DISTINCT k COLLATE "C", 0 FROM unnest(p_unique) AS k WHERE octet_length(k) <= 1020 ORDER BY 1
    ON CONFLICT (key) DO UPDATE SET job = u.job WHERE false;
$$;
