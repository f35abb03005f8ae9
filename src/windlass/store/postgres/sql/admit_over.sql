-- Lets those of an over-line back into the line for tokens whose need the budget can hold by now, at the place that they had
-- there, up to p_limit [F1]. Callers: admit_gates. Lock: the gate's, held by the caller; the rows it moves, by trying only.
-- The answers are those of admit_gate. What was noted of the gate is forgotten first, as there.
CREATE OR REPLACE FUNCTION windlass.admit_over(p_gate text, p_limit int, OUT n int, OUT nexts text[], OUT outs windlass.held[],
                                               OUT rings windlass.held[])
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_line text := 'budget:' || substr(p_gate, 6);
BEGIN
    outs := '{}';
    rings := '{}';
    nexts := ARRAY[v_line];
    DELETE FROM windlass.stirred_gate s WHERE s.gate = p_gate;
    UPDATE windlass.held h SET gate = v_line
     WHERE h.id IN (SELECT x.id FROM windlass.held x
                     WHERE x.gate = p_gate
                       AND x.need <= (SELECT b.burst FROM windlass.budget b WHERE b.name = split_part(substr(p_gate, 6), '/', 1))
                     ORDER BY x.turn LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS n = ROW_COUNT;
END $$;
