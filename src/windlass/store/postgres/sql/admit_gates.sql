-- Lets jobs through these gates, and on through the gates behind them, where there is room; answers with how many came to their
-- lanes.
-- Callers: the store, right after its own commit of whatever may have made room or brought a job; sweep_gates. Lock: those
-- gates, each waited for p_wait ms at most, in the order in which jobs pass them and then of names, so that no two of these
-- meet crosswise; then those of offer. What it had to leave is noted, and promote looks there.
-- A pass given here is seen by all who take the gate's lock later: no two can give away the same room.
CREATE OR REPLACE FUNCTION windlass.admit_gates(p_gates text[], p_limit int, p_wait int DEFAULT 0) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    a       record;
    v_kind  text;
    v_gate  text;
    v_todo  text[] := p_gates;
    v_outs  windlass.held[] := '{}';
    v_rings windlass.held[] := '{}';
    v_moved int := 0;
BEGIN
    PERFORM windlass.require_read_committed();
    FOREACH v_kind IN ARRAY ARRAY['shut', 'over', 'budget', 'order', 'key', 'task'] LOOP
        FOR v_gate IN SELECT DISTINCT g COLLATE "C" AS gate FROM unnest(v_todo) AS g WHERE g LIKE v_kind || ':%' ORDER BY 1 LOOP
            CONTINUE WHEN NOT EXISTS (SELECT FROM windlass.held h WHERE h.gate = v_gate)
                      AND NOT EXISTS (SELECT FROM windlass.stirred_gate s WHERE s.gate = v_gate);
            IF NOT windlass.gate_lock(v_gate, p_wait) THEN
                INSERT INTO windlass.stirred_gate (gate) VALUES (v_gate);
                CONTINUE;
            END IF;
            IF v_kind = 'shut' THEN
                SELECT * INTO a FROM windlass.admit_shut(v_gate, p_limit - v_moved);
            ELSIF v_kind = 'over' THEN
                SELECT * INTO a FROM windlass.admit_over(v_gate, p_limit - v_moved);
            ELSE
                SELECT * INTO a FROM windlass.admit_gate(v_gate, p_limit - v_moved);
            END IF;
            v_moved := v_moved + a.n;
            v_todo := v_todo || a.nexts;
            v_outs := v_outs || a.outs;
            v_rings := v_rings || a.rings;
        END LOOP;
    END LOOP;
    PERFORM windlass.offer_held(v_outs);
    RETURN cardinality(v_outs)
         + coalesce((SELECT sum(windlass.admit_ring(r.queue, r.priority, p_limit))
                       FROM (SELECT DISTINCT u.queue, u.priority FROM unnest(v_rings) AS u) AS r), 0);
END $$;
