-- What becomes of a claim's jobs where a limit was lowered after they had passed its gate: claims_limits.sql
-- puts them aside.

-- Which jobs of a claim must wait again because the limit of a key or a task was lowered when they had its
-- pass: by place the gate, or NULL. They start only while fewer run than the limit says now [F3].
-- Callers: claim_gated. May call: worker. Lock: the gates that have more passes than their limit, by trying
-- only: so of two claims the second counts what the first has started.
CREATE OR REPLACE FUNCTION windlass.claim_called_back(
    p_jobs bigint[], p_tasks text[], p_options text[]) RETURNS text[]
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    g         record;
    v_over    text[] := array_fill(NULL::text, ARRAY[cardinality(p_jobs)]);
    v_passes  jsonb := '{}';  -- by gate
    v_started jsonb := '{}';  -- by gate, of those with more passes than their limit
BEGIN
    FOR g IN SELECT u.i, p.gate,
                    windlass.gate_limit(split_part(p.gate, ':', 1), u.task, u.options::json) AS most
               FROM unnest(p_jobs, p_tasks, p_options) WITH ORDINALITY AS u (job, task, options, i)
               JOIN windlass.task_setting t ON t.name = u.task
              CROSS JOIN LATERAL (SELECT x.gate FROM windlass.pass x WHERE x.job = u.job OFFSET 0) AS p
              WHERE p.gate LIKE 'key:%' AND t.key_concurrency IS NOT NULL
                 OR p.gate LIKE 'task:%' AND t.concurrency IS NOT NULL
              ORDER BY u.i, p.gate COLLATE "C" LOOP
        CONTINUE WHEN v_over[g.i] IS NOT NULL;
        IF NOT v_passes ? g.gate THEN
            v_passes := v_passes || jsonb_build_object(
                g.gate, (SELECT count(*) FROM windlass.pass p WHERE p.gate = g.gate));
        END IF;
        CONTINUE WHEN (v_passes ->> g.gate)::bigint <= g.most;
        IF NOT v_started ? g.gate THEN
            v_started := v_started || jsonb_build_object(
                g.gate, CASE WHEN windlass.gate_lock(g.gate, 0) THEN windlass.count_started(g.gate, p_jobs)
                             ELSE 2147483647 END);
        END IF;
        IF (v_started ->> g.gate)::bigint >= g.most THEN
            v_over[g.i] := g.gate;
            v_passes := v_passes || jsonb_build_object(g.gate, (v_passes ->> g.gate)::bigint - 1);
        ELSE
            v_started := v_started || jsonb_build_object(g.gate, (v_started ->> g.gate)::bigint + 1);
        END IF;
    END LOOP;
    RETURN v_over;
END $$;

-- How many jobs with a pass of a gate run, but for some.
-- Callers: claim_called_back. May call: worker. Lock: ACCESS SHARE on claim, as in finish; the gate's, held
-- by the caller.
CREATE OR REPLACE FUNCTION windlass.count_started(p_gate text, p_but bigint[]) RETURNS bigint
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    RETURN (SELECT count(*) FROM windlass.pass p CROSS JOIN LATERAL windlass.locate(p.job) AS l
             WHERE p.gate = p_gate AND p.job <> ALL (p_but) AND l.claim IS NOT NULL AND l.kind IS NULL);
END $$;
