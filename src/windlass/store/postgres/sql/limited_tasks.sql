-- Those of some tasks (NULL: of all) whose jobs run under a limit by setting [F3]. Callers: enqueue_many, enqueue_new, promote,
-- claim_gated, claim_recheck, retry_many. Lock: none. The table is small.
CREATE OR REPLACE FUNCTION windlass.limited_tasks(p_tasks text[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    -- Mostly there is none. The query below is planned anew for each call, which takes about as long as to offer a job.
    IF NOT EXISTS (SELECT FROM windlass.task_setting t WHERE t.concurrency IS NOT NULL) THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(SELECT t.name FROM windlass.task_setting t
                  WHERE t.concurrency IS NOT NULL AND (p_tasks IS NULL OR t.name = ANY (p_tasks)));
END $$;
