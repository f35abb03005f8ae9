-- How many tokens the bucket behind a gate would grant now, to takers of p_each [F1]. Callers: admit_gate. Lock: none.
CREATE OR REPLACE FUNCTION windlass.gate_tokens(p_gate text, p_each int) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT windlass.bucket_tokens(substr(p_gate, 8, strpos(p_gate, '/') - 8), substr(p_gate, strpos(p_gate, '/') + 1), p_each)
$$;
