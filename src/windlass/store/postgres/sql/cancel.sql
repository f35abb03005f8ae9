-- Cancels a job [O5]: 'cancelled', 'requested' (it runs; its worker is told), 'finished' or 'not_found'.
-- Callers: users, the store. Lock: the lane of a waiting job, until the transaction ends.
-- A job that ran when end_waiting looked may wait again by now, for its next attempt: then it is ended there.
CREATE OR REPLACE FUNCTION windlass.cancel(job bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    p record;
BEGIN
    LOOP
        IF windlass.end_waiting(job, 'cancelled') THEN
            RETURN 'cancelled';
        END IF;
        SELECT * INTO p FROM windlass.locate(cancel.job);
        IF FOUND AND p.kind IS NULL AND p.claim IS NOT NULL THEN
            INSERT INTO windlass.cancel_request (job, at) VALUES (cancel.job, windlass.now()) ON CONFLICT DO NOTHING;
            RETURN 'requested';
        ELSIF FOUND AND p.kind IS NOT NULL OR EXISTS (SELECT FROM windlass.dead d WHERE d.id = cancel.job) THEN
            RETURN 'finished';
        ELSIF NOT windlass.is_unfinished(cancel.job) THEN
            RETURN 'not_found';
        END IF;
    END LOOP;
END $$;
