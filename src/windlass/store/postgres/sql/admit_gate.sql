-- Lets the first jobs of a gate's line through while there is room for them, up to p_limit [F1] [F3] [F6]. Each gets its pass,
-- and goes on to the line of its next gate (`nexts`), to the ring of its fair key (`rings`), or (`outs`) into its lane.
-- Callers: admit_gates. Lock: the gate's, held by the caller; the rows it moves, and lanes that must be declared, by trying only. In the line of an ordering
-- key nobody overtakes one that somebody else has locked.
-- What was noted of the gate is forgotten before the line is read: whoever notes more is not in the line yet.
CREATE OR REPLACE FUNCTION windlass.admit_gate(p_gate text, p_limit int, OUT n int, OUT nexts text[], OUT outs windlass.held[],
                                               OUT rings windlass.held[])
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    h       windlass.held;
    v_kind  text := split_part(p_gate, ':', 1);
    v_task  text;
    v_text  text;
    v_limit bigint;
    v_burst float8;
    v_shut  text[] := '{}';
    v_busy  text[] := '{}';  -- lanes that were waited for in vain
    v_lane  text;
    v_taken bigint;
    v_next  text;
BEGIN
    n := 0;
    nexts := '{}';
    outs := '{}';
    rings := '{}';
    DELETE FROM windlass.stirred_gate s WHERE s.gate = p_gate;
    IF v_kind = 'task' THEN
        PERFORM windlass.count_running(substr(p_gate, 6));
    END IF;
    v_taken := CASE WHEN v_kind = 'budget' THEN windlass.promised(p_gate)
                    ELSE (SELECT count(*) FROM windlass.pass p WHERE p.gate = p_gate) END;
    IF v_kind IN ('key', 'task') THEN
        v_shut := windlass.shut_queues();
    END IF;
    IF v_kind = 'budget' THEN
        SELECT b.burst INTO v_burst FROM windlass.budget b WHERE b.name = split_part(substr(p_gate, 8), '/', 1);
    END IF;
    FOR h IN SELECT * FROM windlass.held x WHERE x.gate = p_gate ORDER BY x.turn LOOP
        IF h.need > v_burst AND n < p_limit THEN
            -- Its budget never holds as much: it stands aside, with its turn, and nobody waits behind it. See admit_over.
            PERFORM FROM windlass.held x WHERE x.id = h.id AND x.gate = p_gate FOR UPDATE SKIP LOCKED;
            UPDATE windlass.held x SET gate = 'over:' || substr(p_gate, 8) WHERE x.id = h.id AND FOUND;
            n := n + 1;
            CONTINUE;
        END IF;
        IF v_kind = 'budget' THEN
            v_limit := coalesce(v_limit, windlass.gate_tokens(p_gate, h.need));
        ELSIF v_task IS DISTINCT FROM h.task OR v_text IS DISTINCT FROM h.options::text THEN
            v_task := h.task;
            v_text := h.options::text;
            v_limit := windlass.gate_limit(v_kind, h.task, h.options);
        END IF;
        IF h.queue = ANY (v_shut) AND n < p_limit THEN
            -- Nobody would run it: it leaves its slots to others, and waits for its queue. See admit_shut.
            PERFORM FROM windlass.held x WHERE x.id = h.id AND x.gate = p_gate FOR UPDATE SKIP LOCKED;
            IF FOUND THEN
                UPDATE windlass.held x SET gate = 'shut:' || h.queue WHERE x.id = h.id;
                PERFORM windlass.drop_passes(ARRAY[h.id], 'slots', true);
                n := n + 1;
            END IF;
            CONTINUE;
        END IF;
        IF v_taken + h.need > v_limit AND v_shut <> '{}' THEN
            v_taken := v_taken - windlass.shut_out(p_gate, v_shut);
        END IF;
        EXIT WHEN v_taken + h.need > v_limit;
        IF n >= p_limit THEN
            INSERT INTO windlass.stirred_gate (gate) VALUES (p_gate);
            EXIT;
        END IF;
        v_lane := h.queue || '/' || h.priority;
        IF v_lane <> ALL (v_busy) AND windlass.lane_try(h.queue, h.priority) IS NULL THEN
            v_busy := v_busy || v_lane;
        END IF;
        PERFORM FROM windlass.held x WHERE x.id = h.id AND x.gate = p_gate AND v_lane <> ALL (v_busy) FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            CONTINUE WHEN v_kind <> 'order' OR NOT EXISTS (SELECT FROM windlass.held x WHERE x.id = h.id AND x.gate = p_gate);
            -- Whoever has locked it may leave it there, and say nothing.
            INSERT INTO windlass.stirred_gate (gate) VALUES (p_gate);
            EXIT;
        END IF;
        n := n + 1;
        IF v_limit IS NOT NULL THEN
            INSERT INTO windlass.pass (gate, job, need, turn, enqueued_at, at)
            VALUES (p_gate, h.id, h.need, h.turn, h.enqueued_at, windlass.now()) ON CONFLICT DO NOTHING;
            v_taken := v_taken + h.need;
        END IF;
        IF v_kind = 'order' THEN
            INSERT INTO windlass.order_mark AS m (queue, key, position, at)
            VALUES (h.queue, h.options ->> 'ordering_key', 1, windlass.now())
            ON CONFLICT (queue, key) DO UPDATE SET position = m.position + 1;
        END IF;
        v_next := windlass.next_gate(h.id, h.queue, h.task, h.options);
        IF v_next IS NOT NULL THEN
            nexts := nexts || v_next;
            UPDATE windlass.held x SET gate = v_next, need = 1, turn = nextval('windlass.held_turn') WHERE x.id = h.id;
        ELSIF h.options ->> 'fair_key' IS NOT NULL
              AND NOT EXISTS (SELECT FROM windlass.pass p WHERE p.job = h.id AND p.gate LIKE 'budget:%') THEN
            -- Who has waited for tokens has had his turn before.
            rings := rings || h;
            UPDATE windlass.held x SET gate = NULL, fair_key = x.options ->> 'fair_key', turn = nextval('windlass.held_turn')
             WHERE x.id = h.id;
        ELSE
            DELETE FROM windlass.held x WHERE x.id = h.id;
            outs := outs || h;
        END IF;
    END LOOP;
END $$;
