-- The first gate on the way of a new job; NULL where it has none. p_limited: whether its task has a limit by setting.
-- Callers: enqueue_gated, enqueue_new. Lock: none. The same as next_gate of a job that has no pass, without a look at any table.
CREATE OR REPLACE FUNCTION windlass.first_gate(p_queue text, p_task text, p_options json, p_limited boolean) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_options ->> 'ordering_key' IS NOT NULL THEN 'order:' || p_queue || '/' || (p_options ->> 'ordering_key')
                WHEN p_options ->> 'concurrency_key' IS NOT NULL THEN 'key:' || (p_options ->> 'concurrency_key')
                WHEN p_limited OR p_options ->> 'task_limit' IS NOT NULL THEN 'task:' || p_task END
$$;
