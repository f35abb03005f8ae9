-- Why a job that was put off waits, if there is more to say than its time [O4]. Callers: the view job, the store's
-- look-up. Lock: none.
CREATE OR REPLACE FUNCTION windlass.put_off_for(d windlass.deferred) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN d.options ->> 'unknown_since' IS NOT NULL THEN 'no worker knows this task' END
$$;
