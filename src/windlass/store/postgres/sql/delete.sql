-- Removes a job: 'deleted', 'requested' (it runs; its cancel was asked for) or 'not_found' [O5].
-- Callers: users, the store. Lock: the lane of a waiting job, until the transaction ends.
CREATE OR REPLACE FUNCTION windlass.delete(job bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    p record;
BEGIN
    IF windlass.end_waiting(job, 'deleted') THEN
        RETURN 'deleted';
    END IF;
    DELETE FROM windlass.dead d WHERE d.id = delete.job;
    IF FOUND THEN
        RETURN 'deleted';
    END IF;
    SELECT * INTO p FROM windlass.locate(delete.job);
    IF NOT FOUND THEN
        RETURN 'not_found';
    ELSIF p.kind IS NULL THEN
        INSERT INTO windlass.cancel_request (job, at) VALUES (delete.job, windlass.now()) ON CONFLICT DO NOTHING;
        RETURN 'requested';
    END IF;
    -- It has ended, so no claim will ever look at this row again.
    DELETE FROM windlass.ready r WHERE r.lane = (p.ready).lane AND r.seq = (p.ready).seq;
    RETURN 'deleted';
END $$;
