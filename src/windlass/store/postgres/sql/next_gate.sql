-- The first gate on a job's way that it has no pass of; NULL: it may go on to its lane [F3] [F6]. p_job NULL: one that is new.
-- Callers: enqueue_one, promote, offer_one, offer_parts, retry_many, admit_gate, admit_shut. Lock: none. gates_of and next_gate in
-- windlass.core.gates say the same.
CREATE OR REPLACE FUNCTION windlass.next_gate(p_job bigint, p_queue text, p_task text, p_options json) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_gate text;
BEGIN
    v_gate := 'order:' || p_queue || '/' || (p_options ->> 'ordering_key');
    IF v_gate IS NOT NULL AND NOT EXISTS (SELECT FROM windlass.pass p WHERE p.job = p_job AND p.gate = v_gate) THEN
        RETURN v_gate;
    END IF;
    v_gate := 'key:' || (p_options ->> 'concurrency_key');
    IF v_gate IS NOT NULL AND NOT EXISTS (SELECT FROM windlass.pass p WHERE p.job = p_job AND p.gate = v_gate) THEN
        RETURN v_gate;
    END IF;
    IF p_options ->> 'task_limit' IS NULL
       AND NOT EXISTS (SELECT FROM windlass.task_setting t WHERE t.name = p_task AND t.concurrency IS NOT NULL) THEN
        RETURN NULL;
    END IF;
    v_gate := 'task:' || p_task;
    RETURN CASE WHEN NOT EXISTS (SELECT FROM windlass.pass p WHERE p.job = p_job AND p.gate = v_gate) THEN v_gate END;
END $$;
