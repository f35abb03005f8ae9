-- The state of a job that stands in the logs: how it ended, or whether a claim covers it. A parent to be splits while it
-- runs. Callers: standing_of, list_judged, the view job, the store's look-up. Lock: none.
CREATE OR REPLACE FUNCTION windlass.shown_as(p_kind text, p_claim bigint, p_options json) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_kind IS NOT NULL THEN p_kind WHEN p_claim IS NULL THEN 'ready'
                WHEN p_options ->> 'chunked' = 'true' THEN 'splitting' ELSE 'running' END
$$;
