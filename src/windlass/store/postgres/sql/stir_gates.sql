-- Notes that something has changed at gates, so that no admission is missed, and calls the coordinator where one may be due:
-- p_call NULL says where nobody stood in line before. Callers: enqueue_one, enqueue_gated, enqueue_new, offer_one, offer_parts,
-- claim_aside (before they set jobs aside), drop_passes, set_task, set_queue, register, budget_change.
-- Lock: none. It only adds rows.
CREATE OR REPLACE FUNCTION windlass.stir_gates(p_gates text[], p_call boolean DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    IF coalesce(p_call, EXISTS (SELECT FROM unnest(p_gates) AS g
                                 WHERE NOT EXISTS (SELECT FROM windlass.held h WHERE h.gate = g OFFSET 0))) THEN
        PERFORM windlass.wake('+');
    END IF;
    INSERT INTO windlass.stirred_gate (gate) SELECT DISTINCT g FROM unnest(p_gates) AS g WHERE g IS NOT NULL;
END $$;
