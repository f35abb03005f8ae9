-- A text in quotes, as Python shows it. Callers: gate_reason. Lock: none.
CREATE OR REPLACE FUNCTION windlass.in_quotes(p_text text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT q.mark || replace(replace(replace(replace(replace(p_text, E'\\', E'\\\\'), q.mark, E'\\' || q.mark), E'\n', E'\\n'),
                                     E'\r', E'\\r'), E'\t', E'\\t') || q.mark
      FROM (SELECT CASE WHEN p_text LIKE '%''%' AND p_text NOT LIKE '%"%' THEN '"' ELSE '''' END AS mark) AS q
$$;
