-- What the jobs of a claim need of which buckets [F1]. Callers: claim_needs. Lock: none. p_needs: as there.
-- Each OFFSET 0 is a fence: a payload is read once, however long it is.
CREATE OR REPLACE FUNCTION windlass.claim_wants(p_needs json, p_tasks text[], p_payloads text[]) RETURNS windlass.want[]
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN (
        SELECT array_agg(ROW (x.i, x.n, x.budget, x.key)::windlass.want)
          FROM (SELECT v.i, v.budget, windlass.bucket_key(v.value) AS key, least(sum(v.n), 2147483647) AS n
                  FROM (SELECT u.i, n.budget, n.n, windlass.need_value(u.payload, n.argument, n.place) AS value
                          FROM (SELECT y.i, y.task, y.payload::json AS payload
                                  FROM unnest(p_tasks, p_payloads) WITH ORDINALITY AS y (task, payload, i) OFFSET 0) AS u
                          JOIN windlass.needs_of(p_needs) AS n ON n.task = u.task OFFSET 0) AS v
                 GROUP BY 1, 2, 3) AS x);
END $$;
