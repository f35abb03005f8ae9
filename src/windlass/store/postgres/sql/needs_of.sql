-- What a claimer said that tasks need, one row for each budget of a task. Callers: claim_plenty, claim_wants. Lock:
-- none.
CREATE OR REPLACE FUNCTION windlass.needs_of(p_needs json)
RETURNS TABLE (task text, budget text, n int, argument text, place int)
LANGUAGE sql IMMUTABLE ROWS 10 AS $$
    SELECT k.key, r.budget, coalesce(r.n, 1), r.argument, r.place
      FROM json_each(p_needs) AS k
     CROSS JOIN LATERAL json_to_recordset(k.value) AS r (budget text, n int, argument text, place int)
$$;
