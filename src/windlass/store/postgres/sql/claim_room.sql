-- How many jobs a claim of a limited queue may take: no more than are free of its concurrency, counted from the claims that
-- have not ended [F3], and than its governor's rate allows [F2]. Callers: claim. Lock: none; the caller holds that of the
-- queue. It writes nothing: a claim must get its xid later (see claim_take).
CREATE OR REPLACE FUNCTION windlass.claim_room(p_lane int, p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    q      windlass.queue;
    v_room bigint := p_limit;
BEGIN
    SELECT x.* INTO q FROM windlass.queue x JOIN windlass.lane l ON l.queue = x.name WHERE l.id = p_lane;
    IF q.concurrency IS NOT NULL THEN
        v_room := least(v_room, q.concurrency - (SELECT coalesce(sum(o.n), 0) FROM windlass.open_claims(q.name) AS o));
    END IF;
    IF q.governor THEN
        v_room := least(v_room, windlass.bucket_tokens('queue:' || q.name, ''));
    END IF;
    RETURN greatest(v_room, 0);
END $$;
