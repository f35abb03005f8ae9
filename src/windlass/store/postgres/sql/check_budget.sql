-- Refuses settings of a budget that do not exist or make no sense [F1]. Callers: declare_budget, set_budget. Lock: none.
CREATE OR REPLACE FUNCTION windlass.check_budget(p_name text, p_changes jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_wrong text;
BEGIN
    PERFORM windlass.check_name('budget', p_name);
    SELECT c.key INTO v_wrong FROM jsonb_each(p_changes) AS c
     WHERE CASE WHEN c.key NOT IN ('rate', 'burst', 'key', 'breaker', 'breaker_pause') THEN true
                WHEN c.key = 'key' THEN jsonb_typeof(c.value) NOT IN ('string', 'null')
                WHEN jsonb_typeof(c.value) <> 'number' THEN true
                WHEN c.value::numeric > 9223372036854775807 THEN true
                WHEN c.key = 'rate' THEN c.value::numeric < 0
                WHEN c.key = 'burst' THEN c.value::numeric < 1 OR c.value::numeric % 1 <> 0
                WHEN c.key = 'breaker' THEN c.value::numeric < 0 OR c.value::numeric % 1 <> 0
                ELSE c.value::numeric <= 0 END
     LIMIT 1;
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION 'budget % cannot have % set to %', p_name, v_wrong, p_changes -> v_wrong USING ERRCODE = 'WL005',
            HINT = 'Settings are rate (tokens a second, from 0), burst (a whole number from 1), key (the name of an '
                   'argument), breaker (failed runs in a row, 0: none) and breaker_pause (seconds, more than 0).';
    END IF;
END $$;
