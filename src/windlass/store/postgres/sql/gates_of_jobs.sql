-- The gates that some jobs wait at or are beyond. Callers: the store, before and after it steers them. Lock: none.
CREATE OR REPLACE FUNCTION windlass.gates_of_jobs(p_jobs bigint[]) RETURNS TABLE (gate text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
    SELECT p.gate FROM unnest(p_jobs) AS j (id) CROSS JOIN LATERAL (SELECT x.gate FROM windlass.pass x WHERE x.job = j.id OFFSET 0) AS p
     UNION
    SELECT h.gate FROM unnest(p_jobs) AS j (id) CROSS JOIN LATERAL (SELECT x.gate FROM windlass.held x WHERE x.id = j.id OFFSET 0) AS h
     WHERE h.gate IS NOT NULL
$$;
