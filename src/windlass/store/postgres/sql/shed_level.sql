-- How much too much is going on in a queue: the largest of depth, oldest wait and store latency over their limits [F5]. The same
-- as in windlass.core.admission. Callers: judge_load. Lock: none.
CREATE OR REPLACE FUNCTION windlass.shed_level(q windlass.queue, p_depth bigint, p_wait float8, p_latency float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(greatest(p_depth / nullif(q.shed_depth, 0)::float8, p_wait / nullif(q.shed_wait, 0),
                             p_latency / nullif(q.shed_latency, 0)), 0)
$$;
