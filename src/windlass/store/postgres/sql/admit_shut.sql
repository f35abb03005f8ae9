-- Lets those go on who stand in the line of a queue where nobody ran them, when somebody does again: to the end of the line of
-- their first gate, or (`outs`) into their lane [F3]. Callers: admit_gates. Lock: the gate's, held by the caller; the rows it
-- moves, by trying only. The answers are those of admit_gate. What was noted of the gate is forgotten first, as there.
CREATE OR REPLACE FUNCTION windlass.admit_shut(p_gate text, p_limit int, OUT n int, OUT nexts text[], OUT outs windlass.held[],
                                               OUT rings windlass.held[])
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    h      windlass.held;
    v_next text;
BEGIN
    n := 0;
    nexts := '{}';
    outs := '{}';
    rings := '{}';
    DELETE FROM windlass.stirred_gate s WHERE s.gate = p_gate;
    IF substr(p_gate, 6) = ANY (windlass.shut_queues()) THEN
        RETURN;
    END IF;
    FOR h IN SELECT * FROM windlass.held x WHERE x.gate = p_gate ORDER BY x.turn LIMIT p_limit FOR UPDATE SKIP LOCKED LOOP
        n := n + 1;
        v_next := windlass.next_gate(h.id, h.queue, h.task, h.options);
        IF v_next IS NULL THEN
            DELETE FROM windlass.held x WHERE x.id = h.id;
            outs := outs || h;
        ELSE
            nexts := nexts || v_next;
            UPDATE windlass.held x SET gate = v_next, turn = nextval('windlass.held_turn') WHERE x.id = h.id;
        END IF;
    END LOOP;
    IF n = p_limit THEN
        INSERT INTO windlass.stirred_gate (gate) VALUES (p_gate);
    END IF;
END $$;
