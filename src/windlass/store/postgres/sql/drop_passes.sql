-- Takes back passes of jobs: 'all', where the jobs have ended; all but that of their ordering key where an 'attempt' has, so that
-- a retry keeps its place [F6]; those of concurrency keys and tasks where they wait for tokens and need no 'slots' meanwhile [F3].
-- Answers with the gates at which somebody waits for the room.
-- Callers: settle, finish, finish_others, give_back, split, hold_key, claim_aside, sweep_passes,
-- admit_gate, shut_out.
-- Lock: the rows it removes, and those of their ordering
-- keys' marks, which nobody else writes while there is a pass.
-- p_call: the caller will not let the next ones in, so the coordinator is called where there are any.
CREATE OR REPLACE FUNCTION windlass.drop_passes(p_jobs bigint[], p_which text, p_call boolean) RETURNS text[]
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_gates text[];
BEGIN
    IF NOT EXISTS (SELECT FROM windlass.pass p WHERE p.job = ANY (p_jobs)) THEN
        RETURN '{}';
    END IF;
    WITH gone AS (DELETE FROM windlass.pass p
                   WHERE p.job = ANY (p_jobs)
                     AND CASE p_which WHEN 'all' THEN true WHEN 'attempt' THEN p.gate NOT LIKE 'order:%'
                                      ELSE p.gate LIKE 'key:%' OR p.gate LIKE 'task:%' END RETURNING p.gate)
    SELECT array_agg(DISTINCT gate) INTO v_gates FROM gone;
    UPDATE windlass.order_mark m SET at = windlass.now()
      FROM (SELECT substr(g, 7, strpos(g, '/') - 7) AS queue, substr(g, strpos(g, '/') + 1) AS key
              FROM unnest(v_gates) AS g WHERE g LIKE 'order:%') AS o
     WHERE m.queue = o.queue AND m.key = o.key;
    v_gates := ARRAY(SELECT g FROM unnest(v_gates) AS g WHERE EXISTS (SELECT FROM windlass.held h WHERE h.gate = g OFFSET 0));
    IF v_gates <> '{}' THEN
        PERFORM windlass.stir_gates(v_gates, p_call);
    END IF;
    RETURN v_gates;
END $$;
