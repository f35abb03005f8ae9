-- One bounded step of looking at gates that nobody was called to: those where something was noted, the lines for tokens, which
-- time opens, and a few others in turn, as a net below all that. `again`: seconds until the next of the lines for tokens that it
-- looked at may move. Callers: the store's promote. Lock: the row that says how far it has come, by trying only; those of
-- admit_gates, by trying only.
CREATE OR REPLACE FUNCTION windlass.sweep_gates(p_limit int, OUT admitted int, OUT again float8)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    k       windlass.gate_look;
    v_gates text[];
    v_lines text[];
BEGIN
    PERFORM windlass.require_read_committed();
    admitted := 0;
    SELECT * INTO k FROM windlass.gate_look FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    v_gates := ARRAY(SELECT DISTINCT s.gate FROM (SELECT x.gate FROM windlass.stirred_gate x LIMIT 1000) AS s LIMIT 200);
    v_lines := windlass.next_lines('budget:', 'budget;', k.tokens, 100);
    k.tokens := coalesce(v_lines[100], '');
    v_gates := v_gates || v_lines;
    v_lines := windlass.next_lines('', NULL, k.line, 20);
    k.line := coalesce(v_lines[20], '');
    admitted := windlass.admit_gates(v_gates || v_lines, p_limit);
    SELECT min(w.seconds) INTO again
      FROM (SELECT DISTINCT g FROM unnest(v_gates) AS g WHERE g LIKE 'budget:%') AS b
     CROSS JOIN LATERAL (SELECT windlass.gate_wait(b.g) AS seconds) AS w WHERE w.seconds < 'Infinity';
    UPDATE windlass.gate_look x SET tokens = k.tokens, line = k.line
     WHERE (x.tokens, x.line) IS DISTINCT FROM (k.tokens, k.line);
END $$;
