-- The short way of a claim's tokens: where its jobs draw from buckets without a key, nobody stands in line or is on his way from
-- there, and each bucket has enough for all of them. False: not so, and nothing was taken [F1]. A half-open breaker never has:
-- its probe is one job, not all of a claim [F7].
-- Callers: claim_needs. Lock: the rows of the buckets, in the order of budgets, until the transaction ends.
CREATE OR REPLACE FUNCTION windlass.claim_plenty(p_needs json, p_tasks text[]) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    b       record;
    v_names text[] := '{}';
    v_ns    int[] := '{}';
BEGIN
    FOR b IN SELECT n.budget, 'budget:' || n.budget || '/' AS gate, (sum(n.n * t.n))::int AS n,
                    bool_or(n.argument IS NOT NULL) AS keyed
               FROM (SELECT x.task, count(*) AS n FROM unnest(p_tasks) AS x (task) GROUP BY x.task) AS t
               JOIN windlass.needs_of(p_needs) AS n ON n.task = t.task
              GROUP BY n.budget ORDER BY n.budget COLLATE "C" LOOP
        IF b.keyed OR EXISTS (SELECT FROM windlass.held h WHERE h.gate = b.gate)
           OR EXISTS (SELECT FROM windlass.pass p WHERE p.gate = b.gate)
           OR windlass.bucket_tokens(b.budget, '') < b.n OR windlass.bucket_take(b.budget, '', b.n, true) < b.n THEN
            PERFORM windlass.bucket_give(u.name, '', u.n) FROM unnest(v_names, v_ns) AS u (name, n);
            RETURN false;
        END IF;
        v_names := v_names || b.budget;
        v_ns := v_ns || b.n;
    END LOOP;
    RETURN true;
END $$;
