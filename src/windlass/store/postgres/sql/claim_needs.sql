-- Takes the tokens that the jobs of a claim need, in its own transaction, and answers with the jobs that got theirs [F1]. The
-- others go aside, to the line of the bucket that lacks tokens; while anybody stands in that line, so does whoever comes through
-- the lane. Those let out of the line (they hold its pass) come first.
-- p_needs: {task: [{"budget": ..., "n": ..., "argument": ..., "place": ...}, ...]}. `busy`: a bucket is not to be had, so the caller must
-- roll back. Callers: claim, after claim_take. Lock: the rows of the buckets, in the order of budget and key, each waited for
-- p_wait ms at most, then those of half-open budgets, by trying only, until the transaction ends; the caller holds the lane.
-- Nobody who holds such a row waits for a lane.
-- Tokens that were promised to jobs on their way from the line to a claim are left for them. Nothing is taken before all is
-- judged: of a half-open breaker only a job that leaves with the claim is the probe [F7].
CREATE OR REPLACE FUNCTION windlass.claim_needs(
    p_lane int, p_claim bigint, p_needs json,
    INOUT seqs bigint[], INOUT ids bigint[], INOUT tasks text[], INOUT payloads text[], INOUT options text[],
    INOUT attempts smallint[], INOUT deaths smallint[], INOUT enqueued float8[], INOUT offered float8[],
    p_wait int DEFAULT 100, OUT busy boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    b         record;
    j         record;
    v_now     float8;
    v_wants   windlass.want[];
    v_jobs    bigint[];
    v_budgets text[] := '{}';
    v_keys    text[] := '{}';
    v_gates   text[] := '{}';
    v_lefts   int[] := '{}';
    v_kept    int[] := '{}';
    v_used    int[] := '{}';
    v_lines   boolean[] := '{}';
    v_probes  boolean[] := '{}';
    v_all     boolean := true;
    v_lacks   int;
    v_aside   int[] := '{}';
    v_to      text[] := '{}';
    v_ns      int[] := '{}';
BEGIN
    busy := windlass.claim_plenty(p_needs, tasks, p_wait);
    IF busy OR busy IS NULL THEN
        busy := busy IS NULL;
        RETURN;
    END IF;
    v_wants := windlass.claim_wants(p_needs, tasks, payloads);
    v_jobs := ARRAY(SELECT coalesce(u.id, p_lane::bigint << 44 | u.seq)
                      FROM unnest(seqs, ids) WITH ORDINALITY AS u (seq, id, i) ORDER BY u.i);
    FOR b IN SELECT w.budget, w.key FROM unnest(v_wants) AS w GROUP BY w.budget, w.key
              ORDER BY w.budget COLLATE "C", w.key COLLATE "C" LOOP
        IF NOT windlass.bucket_try(b.budget, b.key, p_wait) THEN
            busy := true;
            RETURN;
        END IF;
    END LOOP;
    v_now := windlass.epoch();
    FOR b IN SELECT w.budget, w.key, 'budget:' || w.budget || '/' || w.key AS gate, sum(w.n) AS n,
                    array_agg(v_jobs[w.place]) AS jobs, coalesce(bool_or(x.openings > 0 AND x.breaker > 0), false) AS probe
               FROM unnest(v_wants) AS w LEFT JOIN windlass.budget x ON x.name = w.budget
              GROUP BY w.budget, w.key ORDER BY w.budget COLLATE "C", w.key COLLATE "C" LOOP
        IF b.probe THEN
            PERFORM FROM windlass.budget x WHERE x.name = b.budget FOR NO KEY UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                busy := true;
                RETURN;
            END IF;
        END IF;
        v_budgets := v_budgets || b.budget;
        v_keys := v_keys || b.key;
        v_gates := v_gates || b.gate;
        v_lefts := v_lefts || windlass.bucket_tokens(b.budget, b.key, 1000000000, v_now);
        v_kept := v_kept || windlass.promised(b.gate, b.jobs);
        v_used := v_used || least(b.n, 2147483647)::int;
        v_lines := v_lines || EXISTS (SELECT FROM windlass.held h WHERE h.gate = b.gate);
        v_probes := v_probes || b.probe;
        v_all := v_all AND NOT b.probe AND NOT v_lines[cardinality(v_lines)]
                 AND b.n <= v_lefts[cardinality(v_lefts)] - v_kept[cardinality(v_kept)];
    END LOOP;
    IF NOT v_all THEN
        v_used := array_fill(0, ARRAY[cardinality(v_gates)]);
        FOR j IN SELECT w.place, array_agg(g.no::int ORDER BY g.no) AS nos, array_agg(w.n ORDER BY g.no) AS ns,
                        array_agg(p.job IS NOT NULL ORDER BY g.no) AS let
                   FROM unnest(v_wants) AS w
                   JOIN unnest(v_gates) WITH ORDINALITY AS g (gate, no) ON g.gate = 'budget:' || w.budget || '/' || w.key
                   LEFT JOIN windlass.pass p ON p.job = v_jobs[w.place] AND p.gate = g.gate
                  GROUP BY w.place ORDER BY bool_or(p.job IS NOT NULL) DESC, w.place LOOP
            SELECT u.no INTO v_lacks FROM unnest(j.nos, j.ns, j.let) AS u (no, n, let)
             WHERE v_lefts[u.no] < u.n
                OR NOT u.let AND (v_lines[u.no] OR v_lefts[u.no] - u.n < v_kept[u.no] OR v_probes[u.no] AND v_kept[u.no] > 0)
             ORDER BY u.no LIMIT 1;
            IF v_lacks IS NULL THEN
                FOR k IN 1..cardinality(j.nos) LOOP
                    v_used[j.nos[k]] := v_used[j.nos[k]] + j.ns[k];
                    v_lefts[j.nos[k]] := CASE WHEN v_probes[j.nos[k]] THEN 0 ELSE v_lefts[j.nos[k]] - j.ns[k] END;
                END LOOP;
            ELSE
                v_lines[v_lacks] := true;
                v_aside := v_aside || j.place;
                v_to := v_to || v_gates[v_lacks];
                v_ns := v_ns || j.ns[array_position(j.nos, v_lacks)];
            END IF;
        END LOOP;
    END IF;
    FOR k IN 1..cardinality(v_gates) LOOP
        -- A drain or a failure that was told meanwhile.
        IF v_used[k] > 0 AND windlass.bucket_take(v_budgets[k], v_keys[k], v_used[k], true, 1, v_now) < v_used[k] THEN
            busy := true;
            RETURN;
        END IF;
    END LOOP;
    IF v_aside <> '{}' THEN
        PERFORM windlass.claim_aside(p_lane, p_claim, u.seqs, u.jobs, v_to, v_ns)
           FROM (SELECT array_agg(seqs[a.place] ORDER BY a.i) AS seqs, array_agg(v_jobs[a.place] ORDER BY a.i) AS jobs
                   FROM unnest(v_aside) WITH ORDINALITY AS a (place, i)) AS u;
        SELECT * INTO seqs, ids, tasks, payloads, options, attempts, deaths, enqueued, offered
          FROM windlass.claim_without(v_aside, seqs, ids, tasks, payloads, options, attempts, deaths, enqueued, offered);
    END IF;
END $$;
