-- Why a job that was put off waits, if there is more to say than its time [O4] [P12]. Callers: the view job, the store's
-- look-up. Lock: none.
CREATE OR REPLACE FUNCTION windlass.put_off_for(d windlass.deferred) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN d.options ->> 'unknown_since' IS NOT NULL THEN 'no worker knows this task'
                WHEN d.run_at = 'infinity'
                THEN 'waits for job' || CASE WHEN json_array_length(d.options -> 'after') > 1 THEN 's ' ELSE ' ' END
                     || (SELECT string_agg(a.id, ', ' ORDER BY a.i)
                           FROM json_array_elements_text(d.options -> 'after') WITH ORDINALITY AS a (id, i)) END
$$;
