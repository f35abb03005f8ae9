-- Adds one job that is more than plain: delayed, unique, idempotent or after others. Answers with its id and what became
-- of it (see Receipt). Callers: enqueue, enqueue_mixed, the store and the adapters, free_key, fire_schedule. Lock: the row
-- of its unique or idempotency key until the transaction ends; never a lane.
-- Such a job draws its id before its place, so that its keys can name it. p_options is the JSON of its options.
-- p_automatic: by a schedule or a reconciler, so it may be parked [O7]. p_known: the jobs that it comes after were there
-- when it was asked for; those that have gone since are its policy's business [P12]. p_judge: it is refused where its queue has
-- too much to do [F4] [F5]; what the store makes itself, or judge_call has judged, is not.
CREATE OR REPLACE FUNCTION windlass.enqueue_one(
    p_task text, p_payload text, p_queue text, p_priority smallint, p_delay float8, p_run_at timestamptz,
    p_options text, p_on_conflict text, p_idempotency_key text, p_automatic boolean DEFAULT false,
    p_known boolean DEFAULT false, p_judge boolean DEFAULT true, OUT job bigint, OUT status text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    v_now      timestamptz := windlass.now();
    v_run_at   timestamptz;
    v_key      text := p_options::json ->> 'unique_key';
    v_fair     text := p_options::json ->> 'fair_key';
    v_gate     text;
    v_lane     int;
    v_twin     bigint;
    v_replaces bigint;
    v_after    bigint[] := '{}';
BEGIN
    PERFORM windlass.check_name('task', p_task), windlass.check_name('queue', p_queue),
            windlass.check_payload(p_payload);
    IF p_options IS NOT NULL THEN
        p_options := windlass.check_options(p_options);
    END IF;
    PERFORM windlass.check_new(p_priority, p_delay, p_run_at, p_on_conflict, p_idempotency_key, v_key);
    v_run_at := coalesce(p_run_at, v_now + make_interval(secs => p_delay));
    IF NOT EXISTS (SELECT FROM windlass.epoch_mark e WHERE e.place = 'windlass.epoch_mark'::regclass::oid::bigint) THEN
        PERFORM windlass.skip_ids();
    END IF;
    job := nextval('windlass.job_id');
    IF p_idempotency_key IS NOT NULL THEN
        SELECT i.job INTO v_twin FROM windlass.remember(p_idempotency_key, job) AS i (job) WHERE i.job <> enqueue_one.job;
        IF FOUND THEN
            job := v_twin;
            status := 'repeated';
            DELETE FROM windlass.unique_key u WHERE u.key = v_key AND u.job = 0;  -- see line_up
            RETURN;
        END IF;
    END IF;
    IF p_judge THEN
        PERFORM windlass.judge_load(p_queue, p_priority, 1);
    END IF;
    IF p_options::json -> 'after' IS NOT NULL THEN
        v_after := ARRAY(SELECT DISTINCT a.id::bigint FROM json_array_elements_text(p_options::json -> 'after') AS a (id));
        PERFORM windlass.check_after(v_after, p_known);
    END IF;
    IF p_automatic AND v_key IS NOT NULL AND windlass.is_parked(v_key) THEN
        DELETE FROM windlass.idempotency i WHERE i.key = p_idempotency_key;
        DELETE FROM windlass.unique_key u WHERE u.key = v_key AND u.job = 0;
        job := 0;
        status := 'parked';
        RETURN;
    END IF;
    IF v_key IS NOT NULL THEN
        SELECT u.twin, u.status, u.replaces INTO v_twin, status, v_replaces
          FROM windlass.hold_key(v_key, job, p_on_conflict,
                                 json_build_object('task', p_task, 'payload', p_payload, 'queue', p_queue,
                                                   'priority', p_priority, 'delay', p_delay, 'run_at', p_run_at,
                                                   'options', p_options)) AS u;
        IF status IN ('skipped', 'rerun') THEN
            UPDATE windlass.idempotency i SET job = v_twin WHERE i.key = p_idempotency_key;
            job := v_twin;
            RETURN;
        END IF;
    END IF;
    v_lane := windlass.lane_for(p_queue, p_priority);
    v_gate := windlass.next_gate(job, p_queue, p_task, p_options::json);
    IF v_after <> '{}' THEN
        INSERT INTO windlass.deferred (id, run_at, not_before, enqueued_at, queue, priority, task, payload, options, replaces)
        VALUES (job, 'infinity', v_run_at, v_now, p_queue, p_priority, p_task, p_payload::json, p_options::json, v_replaces);
        INSERT INTO windlass.after_edge (job, on_job, ended)
        SELECT enqueue_one.job, a.id, CASE WHEN s.state IN ('dead', 'cancelled') THEN s.state END
          FROM unnest(v_after) AS a (id) LEFT JOIN LATERAL windlass.standing_of(a.id) AS s ON true;
        status := coalesce(status, 'scheduled');
    ELSIF v_run_at > v_now OR v_replaces IS NOT NULL OR v_lane IS NULL THEN
        INSERT INTO windlass.deferred (id, run_at, enqueued_at, queue, priority, task, payload, options, replaces)
        VALUES (job, coalesce(v_run_at, v_now), v_now, p_queue, p_priority, p_task, p_payload::json, p_options::json,
                v_replaces);
        status := coalesce(status, CASE WHEN v_run_at > v_now THEN 'scheduled' ELSE 'enqueued' END);
    ELSIF v_gate IS NOT NULL OR v_fair IS NOT NULL THEN
        PERFORM windlass.stir_gates(ARRAY[v_gate]);
        INSERT INTO windlass.held (id, since, enqueued_at, queue, priority, gate, fair_key, task, payload, options)
        VALUES (job, v_now, v_now, p_queue, p_priority, v_gate, CASE WHEN v_gate IS NULL THEN v_fair END, p_task,
                p_payload::json, p_options::json);
        status := coalesce(status, 'held');
    ELSE
        PERFORM windlass.offer(v_lane, 1, ARRAY[p_task], ARRAY[p_payload], ARRAY[p_options], ARRAY[job]);
        status := coalesce(status, 'enqueued');
    END IF;
END $$;
