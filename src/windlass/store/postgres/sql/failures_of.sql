-- The last 32 failures of a job as JSON, oldest first [O4]. Callers: bury_job, bury_deferred, list_causes, the
-- store's look-up. Lock: none.
-- A row of attempt 0 is no failure: it says that those before it are forgotten [O1].
CREATE OR REPLACE FUNCTION windlass.failures_of(p_job bigint) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT coalesce(json_agg(json_build_object('type', f.type, 'message', f.message, 'traceback', f.traceback,
                                               'attempt', f.attempt, 'at', date_part('epoch', f.at))
                             ORDER BY f.at), '[]')
      FROM (SELECT * FROM windlass.failure
             WHERE job = p_job
               AND at > coalesce((SELECT max(m.at) FROM windlass.failure m
                                  WHERE m.job = p_job AND m.attempt = 0), '-infinity')
             ORDER BY at DESC LIMIT 32) AS f
$$;
