-- The clock was set back: buckets that have seen a later time go on from now [fault 31]. Each does so by itself when it is
-- written, but one that has nothing to grant is not. Up to p_limit; answers with how many.
-- Callers: the store's promote, when its own watermark lies in a time to come. Lock: the rows it changes, by trying only.
CREATE OR REPLACE FUNCTION windlass.clock_back(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    v_now  float8 := windlass.epoch();
    v_done int;
BEGIN
    UPDATE windlass.bucket x SET (tokens, at, blocked_until, drains) =
           (SELECT r.tokens, r.at, r.blocked_until, r.drains FROM windlass.bucket_at(b, x, v_now) AS r)
      FROM windlass.budget b
     WHERE b.name = x.budget
       AND (x.budget, x.key) IN (SELECT y.budget, y.key FROM windlass.bucket y WHERE y.at > v_now + 1
                                  LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS v_done = ROW_COUNT;
    RETURN v_done;
END $$;
