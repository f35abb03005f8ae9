-- Says that somebody waits for jobs to end, so that finish notifies. Callers: the store's wait_finished, on each
-- turn, since expire takes the mark away. Lock: none.
CREATE OR REPLACE FUNCTION windlass.await_jobs() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    IF pg_sequence_last_value('windlass.awaited'::regclass) = 0 THEN
        PERFORM setval('windlass.awaited'::regclass, 1, true);
    END IF;
END $$;
