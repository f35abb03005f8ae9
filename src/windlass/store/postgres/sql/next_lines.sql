-- The names of up to p_n gates with a line, from p_low on and below p_high, those after p_after: one index probe each, however
-- long the lines are. Callers: sweep_gates, set_task, set_queue, register, budget_change, list_gates, list_watermarks. Lock: none.
CREATE OR REPLACE FUNCTION windlass.next_lines(p_low text, p_high text, p_after text, p_n int) RETURNS text[]
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    v_found text[] := '{}';
    v_gate  text;
BEGIN
    IF p_after < p_low COLLATE "C" THEN
        SELECT h.gate INTO v_gate FROM windlass.held h WHERE h.gate >= p_low ORDER BY h.gate, h.turn LIMIT 1;
    ELSE
        SELECT h.gate INTO v_gate FROM windlass.held h WHERE h.gate > p_after ORDER BY h.gate, h.turn LIMIT 1;
    END IF;
    WHILE v_gate IS NOT NULL AND (p_high IS NULL OR v_gate < p_high COLLATE "C") AND cardinality(v_found) < p_n LOOP
        v_found := v_found || v_gate;
        SELECT h.gate INTO v_gate FROM windlass.held h WHERE h.gate > v_found[cardinality(v_found)]
         ORDER BY h.gate, h.turn LIMIT 1;
    END LOOP;
    RETURN v_found;
END $$;
