-- Changes some settings of a task; NULL goes back to what the code says, and unnamed ones stay [P6]. Callers: users, the
-- store. Lock: the row. A setting that does not exist, or makes no sense, is refused, and nothing is changed.
CREATE OR REPLACE FUNCTION windlass.set_task(p_name text, p_changes jsonb) RETURNS windlass.task_setting
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    t       windlass.task_setting;
    v_wrong text;
BEGIN
    PERFORM windlass.check_name('task', p_name);
    SELECT c.key INTO v_wrong FROM jsonb_each(p_changes) AS c
     WHERE CASE WHEN c.key NOT IN ('batch', 'batch_timeout', 'parallel', 'concurrency', 'key_concurrency') THEN true
                WHEN jsonb_typeof(c.value) = 'null' THEN false
                WHEN jsonb_typeof(c.value) <> 'number' THEN true
                WHEN c.key = 'batch_timeout' THEN c.value::numeric <= 0
                ELSE c.value::numeric NOT BETWEEN 1 AND 9223372036854775807 OR c.value::numeric % 1 <> 0 END
     LIMIT 1;
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION 'task % cannot have % set to %', p_name, v_wrong, p_changes -> v_wrong USING ERRCODE = 'WL005',
            HINT = 'Settings are batch, batch_timeout, parallel, concurrency and key_concurrency; they are positive numbers.';
    END IF;
    INSERT INTO windlass.task_setting (name) VALUES (p_name) ON CONFLICT DO NOTHING;
    SELECT * INTO t FROM windlass.task_setting x WHERE x.name = p_name FOR UPDATE;
    t := jsonb_populate_record(t, p_changes);
    UPDATE windlass.task_setting x SET batch = t.batch, batch_timeout = t.batch_timeout, parallel = t.parallel,
           concurrency = t.concurrency, key_concurrency = t.key_concurrency
     WHERE x.name = p_name;
    DELETE FROM windlass.task_setting x
     WHERE x.name = p_name AND num_nonnulls(x.batch, x.batch_timeout, x.parallel, x.concurrency, x.key_concurrency) = 0;
    -- Those that run count under a limit that is new, and where there is more room now somebody must look [F3]. They are
    -- counted when this is committed: see count_running.
    IF p_changes ? 'concurrency' AND t.concurrency IS NOT NULL THEN
        INSERT INTO windlass.uncounted_task (task) VALUES (p_name);
    END IF;
    IF p_changes ? 'concurrency' THEN
        PERFORM windlass.stir_gates(ARRAY['task:' || p_name], true);
    END IF;
    IF p_changes ? 'key_concurrency' THEN
        -- Which of the lines of keys have jobs of this task takes longer to find out than to look at them.
        PERFORM windlass.stir_gates(windlass.next_lines('key:', 'key;', '', 1000), true);
    END IF;
    RETURN t;
END $$;
