-- How many jobs a claim of a limited queue may take: no more than are free of its concurrency, counted from the claims that
-- have not ended [F3], and than its governor's rate allows [F2]. Where that is none: status 'full', until one ends, or 'slow',
-- until the rate allows more. Callers: claim. Lock: none; the caller holds those of the queue and of this lane. Where the limit is
-- new those of its other lanes, by trying only: a claim that began before may be under way there, and is counted when it has
-- ended; till then 'busy'. It writes nothing: a claim must get
-- its xid later (see claim_take).
CREATE OR REPLACE FUNCTION windlass.claim_room(p_lane int, p_limit int, OUT room int, OUT status text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    q windlass.queue;
BEGIN
    SELECT x.* INTO q FROM windlass.queue x JOIN windlass.lane l ON l.queue = x.name WHERE l.id = p_lane;
    room := p_limit;
    IF q.concurrency IS NOT NULL AND NOT EXISTS (SELECT FROM windlass.limited_queue x WHERE x.queue = q.name)
       AND EXISTS (SELECT FROM windlass.lane l WHERE l.queue = q.name AND l.id <> p_lane
                      AND NOT pg_try_advisory_xact_lock(windlass.lock_space(), l.id)) THEN
        room := 0;
        status := 'busy';
        RETURN;
    END IF;
    IF q.concurrency IS NOT NULL THEN
        room := greatest(least(room, q.concurrency - (SELECT coalesce(sum(o.n), 0) FROM windlass.open_claims(q.name) AS o)), 0);
        status := CASE WHEN room < 1 THEN 'full' END;
    END IF;
    IF q.governor AND room > 0 THEN
        room := least(room, windlass.bucket_tokens('queue:' || q.name, ''));
        status := CASE WHEN room < 1 THEN 'slow' END;
    END IF;
END $$;
