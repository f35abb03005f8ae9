-- Whether a job may have to wait aside, for a gate or the turn of its fair key: a quick look, before a sure one by next_gate.
-- p_limited: tasks that have a limit by setting. Callers: enqueue_many, enqueue_new, promote, retry_many. Lock: none.
CREATE OR REPLACE FUNCTION windlass.may_be_gated(p_task text, p_options text, p_limited text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_task = ANY (p_limited)
        OR coalesce(p_options ~ '"(ordering_key|concurrency_key|task_limit|fair_key)"', false)
$$;
