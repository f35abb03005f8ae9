-- The short way of a claim's tokens: where its jobs draw from buckets without a key, nobody stands in line or is on his way from
-- there, and each bucket has enough for all of them. False: not so, and nothing was taken [F1]. Half-open it has enough
-- for one: its probe is one job, not all of a claim [F7]. NULL: a bucket is not to be had, as in bucket_try.
-- Callers: claim_needs. Lock: the rows of the buckets, in the order of budgets, until the transaction ends. All are looked at
-- before any is taken from: a probe cannot be given back.
CREATE OR REPLACE FUNCTION windlass.claim_plenty(p_needs json, p_tasks text[], p_wait int) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    b       record;
    v_names text[] := '{}';
    v_ns    int[] := '{}';
    v_now   float8;
BEGIN
    FOR b IN SELECT n.budget, 'budget:' || n.budget || '/' AS gate, least(sum(n.n * t.n), 2147483647)::int AS n,
                    bool_or(n.argument IS NOT NULL) AS keyed
               FROM (SELECT x.task, count(*) AS n FROM unnest(p_tasks) AS x (task) GROUP BY x.task) AS t
               JOIN windlass.needs_of(p_needs) AS n ON n.task = t.task
              GROUP BY n.budget ORDER BY n.budget COLLATE "C" LOOP
        IF b.keyed OR EXISTS (SELECT FROM windlass.held h WHERE h.gate = b.gate)
           OR EXISTS (SELECT FROM windlass.pass p WHERE p.gate = b.gate) OR windlass.bucket_tokens(b.budget, '') < b.n THEN
            RETURN false;
        END IF;
        v_names := v_names || b.budget;
        v_ns := v_ns || b.n;
    END LOOP;
    FOR k IN 1..cardinality(v_names) LOOP
        IF NOT windlass.bucket_try(v_names[k], '', p_wait) THEN
            RETURN NULL;
        END IF;
    END LOOP;
    v_now := windlass.epoch();
    FOR k IN 2..cardinality(v_names) LOOP
        IF windlass.bucket_tokens(v_names[k], '', 1, v_now) < v_ns[k] THEN
            RETURN false;
        END IF;
    END LOOP;
    FOR k IN 1..cardinality(v_names) LOOP
        IF windlass.bucket_take(v_names[k], '', v_ns[k], true, 1, v_now) < v_ns[k] THEN
            -- The first had too little; another, which had enough, was drained just now.
            RETURN CASE WHEN k = 1 THEN false END;
        END IF;
    END LOOP;
    RETURN true;
END $$;
