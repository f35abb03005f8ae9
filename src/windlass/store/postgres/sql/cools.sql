-- Seconds until a queue gives out jobs again; 0 where it does not cool. Callers: the store's readings. Lock: none.
CREATE OR REPLACE FUNCTION windlass.cools(q windlass.queue) RETURNS float8
LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN q.cool_until IS NULL THEN 0
                ELSE greatest(date_part('epoch', q.cool_until - windlass.now()), 0) END
$$;
