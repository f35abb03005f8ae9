-- Refuses p_n new jobs of a priority where their queue, or the store, has too much to do: Shed [F5], then QueueFull [F4]. The
-- same as in windlass.core.admission. Callers: enqueue_many, enqueue_one, judge_call. Lock: none.
-- A queue without such limits costs one look at its row. What positions say is looked at again before anything is refused: only
-- what has committed counts [S2]. What is refused rolls back with the caller's transaction, so it is
-- counted by whoever hears of it: see note_refused.
CREATE OR REPLACE FUNCTION windlass.judge_load(p_queue text, p_priority smallint, p_n int) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    q         windlass.queue;
    l         record;
    v_latency float8;
    v_level   float8;
    v_seen    boolean;
    v_sheds   boolean;
    v_full    boolean;
BEGIN
    SELECT * INTO q FROM windlass.queue x
     WHERE x.name = p_queue AND num_nonnulls(x.max_depth, x.shed_depth, x.shed_wait, x.shed_latency) > 0;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF q.shed_latency IS NOT NULL THEN
        SELECT o.latency INTO v_latency FROM windlass.observed o WHERE o.at > windlass.epoch() - 30;
    END IF;
    FOREACH v_seen IN ARRAY ARRAY[false, true] LOOP
        SELECT * INTO l FROM windlass.queue_load(
            p_queue, ceil(greatest(q.max_depth * 1.2, q.shed_depth))::bigint, q.shed_wait IS NOT NULL, v_seen);
        v_level := windlass.shed_level(q, l.depth, l.wait, v_latency);
        v_sheds := v_level >= 1 AND p_priority > 0 OR v_level >= 0.9 AND p_priority > 1 OR v_level >= 0.7 AND p_priority >= 3;
        v_full := windlass.pressure_at(q, l.depth) = 'full' AND (p_priority <> 0 OR l.depth >= q.max_depth * 1.2);
        IF NOT v_sheds AND NOT v_full THEN
            RETURN;
        END IF;
    END LOOP;
    IF v_sheds THEN
        RAISE EXCEPTION 'queue % sheds % new jobs of priority %: its load is % of what is allowed', p_queue, p_n,
            (ARRAY['urgent', 'high', 'normal', 'low'])[p_priority + 1], to_char(v_level * 100, 'FM999999990%')
            USING ERRCODE = 'WL012', DETAIL = json_build_object('queue', p_queue, 'retry_after', 10, 'level', v_level, 'n', p_n),
                  HINT = 'Try again in 10 s, or enqueue with a higher priority what cannot wait.';
    ELSE
        RAISE EXCEPTION 'queue % is full: % jobs are ready, and its max_depth is %', p_queue, l.depth, q.max_depth
            USING ERRCODE = 'WL011', DETAIL = json_build_object('queue', p_queue, 'retry_after', 5, 'n', p_n),
                  HINT = 'Try again in 5 s; it takes jobs again when it has fallen to 60 %.';
    END IF;
END $$;
