-- Why a job that was put off waits, if there is more to say than its time [O4] [P12]. Callers: list_found, the view job,
-- the store's look-up. Lock: none.
CREATE OR REPLACE FUNCTION windlass.put_off_for(d windlass.deferred) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN d.options ->> 'unknown_since' IS NOT NULL THEN 'no worker knows this task'
                WHEN d.run_at = 'infinity'
                THEN (SELECT 'waits for job ' || min(e.on_job)
                             || CASE count(*) WHEN 1 THEN '' WHEN 2 THEN ' and 1 other'
                                     ELSE ' and ' || (count(*) - 1) || ' others' END
                        FROM windlass.after_edge e WHERE e.job = d.id) END
$$;
