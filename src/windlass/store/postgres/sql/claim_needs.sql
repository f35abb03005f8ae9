-- Takes the tokens that the jobs of a claim need, in its own transaction, and answers with the jobs that got theirs [F1]. The
-- others go aside, to the line of the bucket that lacks tokens; while anybody stands in that line, so does whoever comes through
-- the lane. Those let out of the line (they hold its pass) come first, and use it up.
-- p_needs: {task: [{"budget": …, "n": …, "argument": …, "place": …}, …]}. Callers: claim, after claim_take. Lock: the rows of
-- the buckets, in the order of budget and key, until the transaction ends; the caller holds the lane. Nobody who holds such a
-- row waits for a lane.
-- Tokens that were promised to jobs on their way from the line to a claim are left for them.
CREATE OR REPLACE FUNCTION windlass.claim_needs(
    p_lane int, p_claim bigint, p_needs json,
    INOUT seqs bigint[], INOUT ids bigint[], INOUT tasks text[], INOUT payloads text[], INOUT options text[],
    INOUT attempts smallint[], INOUT deaths smallint[], INOUT enqueued float8[])
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    b          record;
    j          record;
    v_wants    windlass.want[];
    v_jobs     bigint[];
    v_gates    text[] := '{}';
    v_lefts    int[] := '{}';
    v_lines    boolean[] := '{}';
    v_all      boolean := true;
    v_let      int;
    v_promised int;
    v_got      int;
    v_line     boolean;
    v_lacks    int;
    v_aside    int[] := '{}';
    v_to       text[] := '{}';
    v_ns       int[] := '{}';
BEGIN
    IF windlass.claim_plenty(p_needs, tasks) THEN
        RETURN;
    END IF;
    v_wants := windlass.claim_wants(p_needs, tasks, payloads);
    v_jobs := ARRAY(SELECT coalesce(u.id, p_lane::bigint << 44 | u.seq)
                      FROM unnest(seqs, ids) WITH ORDINALITY AS u (seq, id, i) ORDER BY u.i);
    FOR b IN SELECT w.budget, w.key, 'budget:' || w.budget || '/' || w.key AS gate, sum(w.n)::int AS n, min(w.n) AS least,
                    max(w.n) AS most, array_agg(v_jobs[w.place]) AS jobs, array_agg(w.n) AS ns
               FROM unnest(v_wants) AS w GROUP BY w.budget, w.key ORDER BY w.budget COLLATE "C", w.key COLLATE "C" LOOP
        v_let := (SELECT coalesce(sum(u.n), 0) FROM windlass.pass p JOIN unnest(b.jobs, b.ns) AS u (job, n) ON u.job = p.job
                   WHERE p.gate = b.gate);
        v_promised := windlass.promised(b.gate, b.jobs);
        v_line := EXISTS (SELECT FROM windlass.held h WHERE h.gate = b.gate);
        v_got := CASE WHEN v_line AND v_let = 0 THEN 0
                      ELSE windlass.bucket_take(b.budget, b.key, CASE WHEN v_line THEN v_let ELSE b.n END, false,
                                                CASE WHEN b.least = b.most THEN b.least ELSE 1 END) END;
        IF v_promised > 0 AND v_got > v_let THEN
            v_promised := least(greatest(v_promised - windlass.bucket_tokens(b.budget, b.key), 0), v_got - v_let);
            PERFORM windlass.bucket_give(b.budget, b.key, v_promised) WHERE v_promised > 0;
            v_got := v_got - v_promised;
        END IF;
        v_gates := v_gates || b.gate;
        v_lefts := v_lefts || v_got;
        v_lines := v_lines || v_line;
        v_all := v_all AND v_got = b.n AND NOT v_line;
    END LOOP;
    IF NOT v_all THEN
        FOR j IN SELECT w.place, array_agg(g.no::int ORDER BY g.no) AS nos, array_agg(w.n ORDER BY g.no) AS ns,
                        array_agg(p.job IS NOT NULL ORDER BY g.no) AS let
                   FROM unnest(v_wants) AS w
                   JOIN unnest(v_gates) WITH ORDINALITY AS g (gate, no) ON g.gate = 'budget:' || w.budget || '/' || w.key
                   LEFT JOIN windlass.pass p ON p.job = v_jobs[w.place] AND p.gate = g.gate
                  GROUP BY w.place ORDER BY bool_or(p.job IS NOT NULL) DESC, w.place LOOP
            SELECT u.no INTO v_lacks FROM unnest(j.nos, j.ns, j.let) AS u (no, n, let)
             WHERE v_lefts[u.no] < u.n OR v_lines[u.no] AND NOT u.let ORDER BY u.no LIMIT 1;
            IF v_lacks IS NULL THEN
                FOR k IN 1..cardinality(j.nos) LOOP
                    v_lefts[j.nos[k]] := v_lefts[j.nos[k]] - j.ns[k];
                END LOOP;
            ELSE
                v_lines[v_lacks] := true;
                v_aside := v_aside || j.place;
                v_to := v_to || v_gates[v_lacks];
                v_ns := v_ns || j.ns[array_position(j.nos, v_lacks)];
            END IF;
        END LOOP;
        FOR k IN 1..cardinality(v_gates) LOOP
            PERFORM windlass.bucket_give(substr(v_gates[k], 8, strpos(v_gates[k], '/') - 8),
                                         substr(v_gates[k], strpos(v_gates[k], '/') + 1), v_lefts[k]) WHERE v_lefts[k] > 0;
        END LOOP;
    END IF;
    IF v_aside <> '{}' THEN
        PERFORM windlass.claim_aside(p_lane, p_claim, u.seqs, u.jobs, v_to, v_ns)
           FROM (SELECT array_agg(seqs[a.place] ORDER BY a.i) AS seqs, array_agg(v_jobs[a.place] ORDER BY a.i) AS jobs
                   FROM unnest(v_aside) WITH ORDINALITY AS a (place, i)) AS u;
    END IF;
    DELETE FROM windlass.pass p
     WHERE p.job = ANY (v_jobs) AND p.gate = ANY (v_gates)
       AND p.job <> ALL (ARRAY(SELECT v_jobs[a] FROM unnest(v_aside) AS a));
    IF v_aside <> '{}' THEN
        SELECT * INTO seqs, ids, tasks, payloads, options, attempts, deaths, enqueued
          FROM windlass.claim_without(v_aside, seqs, ids, tasks, payloads, options, attempts, deaths, enqueued);
    END IF;
END $$;
