-- How many jobs may be beyond a gate at a time, as one of those in its line says; NULL: it has no limit any more. Settings of
-- the task override what the job says [F3]. Callers: admit_gate. Lock: none.
CREATE OR REPLACE FUNCTION windlass.gate_limit(p_kind text, p_task text, p_options json) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    t windlass.task_setting;
BEGIN
    IF p_kind = 'order' THEN
        RETURN 1;
    END IF;
    SELECT * INTO t FROM windlass.task_setting x WHERE x.name = p_task;
    RETURN CASE p_kind WHEN 'key' THEN coalesce(t.key_concurrency, (p_options ->> 'key_limit')::bigint, 1)
                       WHEN 'task' THEN coalesce(t.concurrency, (p_options ->> 'task_limit')::bigint) END;
END $$;
