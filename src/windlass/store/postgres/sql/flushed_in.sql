-- What one flush ended of a claim. Callers: finish, finish_others, split. Lock: none.
CREATE OR REPLACE FUNCTION windlass.flushed_in(p_claim bigint, p_flush bigint) RETURNS int8multirange
LANGUAGE sql STABLE AS $$
    SELECT coalesce(range_agg(o.seqs), '{}') FROM windlass.outcome o WHERE o.claim = p_claim AND o.flush = p_flush
$$;
