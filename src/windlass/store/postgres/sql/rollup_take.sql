-- Starts one step of the rollup: the oldest news with ids above p_after, up to p_limit, and how many ids were given
-- out before it looked. `busy`: another one is at it, and nothing is left to do. Callers: the store's rollup, which folds them and ends with rollup_put in the same transaction, so that
-- what was taken is counted once or, where that is rolled back, by the next one [M1].
-- Lock: advisory, (oid of the news table, 0), by trying only, until the transaction ends.
CREATE OR REPLACE FUNCTION windlass.rollup_take(
    p_limit int, p_after bigint, OUT busy boolean, OUT given bigint, OUT ids bigint[], OUT samples text[])
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    -- What is read after the lock must be younger than the lock.
    PERFORM windlass.require_read_committed();
    busy := NOT pg_try_advisory_xact_lock(('windlass.news'::regclass::oid::bigint - 2147483648)::int, 0);
    IF NOT busy THEN
        given := coalesce(pg_sequence_last_value('windlass.news_id_seq'::regclass), 0);
        SELECT coalesce(array_agg(n.id), '{}'), coalesce(array_agg(n.samples::text), '{}') INTO ids, samples
          FROM (SELECT * FROM windlass.news x WHERE x.id > p_after ORDER BY x.id LIMIT p_limit) AS n;
    END IF;
END $$;
