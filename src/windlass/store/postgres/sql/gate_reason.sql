-- Why a job waits that stands in this line; NULL is the ring of fair keys [M4]. Callers: list_found, the view job, the
-- store's look-up.
-- Lock: none. reason in windlass.core.gates says the same.
CREATE OR REPLACE FUNCTION windlass.gate_reason(p_gate text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE g.kind
           WHEN 'order' THEN 'waits for the jobs before it of ordering key ' || windlass.in_quotes(g.key) || ' in queue ' || g.name
           WHEN 'key' THEN 'waits for a slot of concurrency key ' || windlass.in_quotes(g.rest)
           WHEN 'task' THEN 'waits for a slot of task ' || g.rest
           WHEN 'budget' THEN 'waits for tokens of budget ' || g.name
                              || CASE WHEN g.key <> '' THEN ', key ' || windlass.in_quotes(g.key) ELSE '' END
           WHEN 'over' THEN 'needs more tokens than budget ' || g.name || ' can hold'
                            || CASE WHEN g.key <> '' THEN ', key ' || windlass.in_quotes(g.key) ELSE '' END || ': raise its burst'
           WHEN 'shut' THEN 'waits for queue ' || g.rest || ', which is paused or served by no worker'
           ELSE 'waits for the turn of its fair key' END
      FROM (SELECT split_part(p_gate, ':', 1) AS kind, r.rest, split_part(r.rest, '/', 1) AS name,
                   substr(r.rest, strpos(r.rest || '/', '/') + 1) AS key
              FROM (SELECT substr(p_gate, strpos(p_gate, ':') + 1) AS rest) AS r) AS g
$$;
