-- A waiting job is changed in place [E8]: its queue, priority, time, arguments and options. Its id stays, and
-- so do its keys. One that is ready in a lane is claimed ahead of the cursor and offered anew, in one
-- transaction [rule 13]: so it is given out once, changed or not, whoever claims at that moment.

-- Changes a job that waits; what is NULL stays. p_run_at: when it may run, p_delay: in so many seconds.
-- p_options: what to put in the place of some options, null to take one away. Returns 'changed', or, with
-- nothing changed: 'running' (also a parent that waits for its parts), 'ended', 'part' or 'not_found'. A job
-- that waits for signals is put off with its waits: none of them times out before its new time [W2].
-- Callers: the store. May call: worker. Plan: pinned. Lock: ACCESS SHARE on claim, as in finish; the lane of
-- a job that is ready there, or its row; then those of place_changed.
-- While this waits for a lock, the job may move on; then it is looked up again, as in end_waiting.
CREATE OR REPLACE FUNCTION windlass.change(
    p_job bigint, p_queue text DEFAULT NULL, p_priority smallint DEFAULT NULL, p_delay float8 DEFAULT NULL,
    p_run_at timestamptz DEFAULT NULL, p_payload text DEFAULT NULL, p_options text DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_now timestamptz := windlass.now();
    v_at  timestamptz := coalesce(p_run_at, v_now + make_interval(secs => p_delay));
    w     windlass.held;
    c     windlass.held;
    d     windlass.deferred;
    p     record;
    v_stays boolean;
BEGIN
    PERFORM windlass.require_read_committed();
    PERFORM windlass.check_new(coalesce(p_priority, 0::smallint), p_delay, p_run_at, 'skip', NULL, NULL);
    IF p_queue IS NOT NULL THEN
        PERFORM windlass.check_name('queue', p_queue);
    END IF;
    IF p_payload IS NOT NULL THEN
        PERFORM windlass.check_payload(p_payload);
    END IF;
    IF p_options IS NOT NULL THEN
        PERFORM windlass.check_options(jsonb_strip_nulls(p_options::jsonb)::text);
    END IF;
    IF EXISTS (SELECT FROM windlass.part t WHERE t.job = p_job) THEN
        RETURN 'part';
    END IF;
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    FOR try IN 1..10 LOOP
        SELECT * INTO p FROM windlass.locate(p_job);
        IF FOUND THEN
            IF p.claim IS NOT NULL OR p.kind IS NOT NULL THEN
                RETURN CASE WHEN p.kind IS NULL THEN 'running' ELSE 'ended' END;
            ELSIF windlass.take_ahead((p.ready).lane, ARRAY[(p.ready).seq], 'changed') <> '{}' THEN
                SELECT p_job, 0, (p.ready).offered_at, windlass.enqueued_of(p.ready), l.priority,
                       (p.ready).attempt, (p.ready).deaths, l.queue, (p.ready).options ->> 'fair_key',
                       (p.ready).task, (p.ready).payload, (p.ready).options, NULL, 1, NULL
                  INTO w FROM windlass.lane l WHERE l.id = (p.ready).lane;
                c := windlass.changed(w, p_queue, p_priority, v_at, p_payload, p_options);
                PERFORM windlass.place_changed(w, c, v_at);
                RETURN 'changed';
            END IF;
            CONTINUE;
        END IF;
        SELECT * INTO w FROM windlass.held h WHERE h.id = p_job FOR UPDATE;
        IF FOUND THEN
            c := windlass.changed(w, p_queue, p_priority, v_at, p_payload, p_options);
            v_stays := CASE WHEN v_at > v_now THEN false
                            WHEN windlass.own_gates(w) IS DISTINCT FROM windlass.own_gates(c) THEN false
                            WHEN w.gate IS NOT NULL
                            THEN split_part(w.gate, ':', 1) IN ('order', 'key', 'task')
                            ELSE (w.queue, w.priority, windlass.abilities_of(w.options), w.fair_key)
                                 IS NOT DISTINCT FROM (c.queue, c.priority, windlass.abilities_of(c.options),
                                                       c.options ->> 'fair_key') END;
            IF v_stays THEN
                -- It keeps its place where it waits.
                UPDATE windlass.held h SET queue = c.queue, priority = c.priority, payload = c.payload,
                                           options = c.options
                 WHERE h.id = p_job;
                RETURN 'changed';
            END IF;
            DELETE FROM windlass.held h WHERE h.id = p_job;
            IF w.gate IS NOT NULL THEN
                PERFORM windlass.mark_gates_changed(ARRAY[w.gate], true);
            END IF;
            PERFORM windlass.place_changed(w, c, v_at);
            RETURN 'changed';
        END IF;
        SELECT * INTO d FROM windlass.deferred x WHERE x.id = p_job FOR UPDATE;
        IF FOUND THEN
            w := ROW (p_job, 0, v_now, d.enqueued_at, d.priority, d.attempt, d.deaths, d.queue, NULL, d.task,
                      d.payload, d.options, NULL, 1, NULL)::windlass.held;
            c := windlass.changed(w, p_queue, p_priority, v_at, p_payload, p_options);
            IF v_at <= v_now AND isfinite(d.run_at) AND d.replaces IS NULL THEN
                DELETE FROM windlass.deferred x WHERE x.id = p_job;
                PERFORM windlass.place_changed(w, c, v_at);
                RETURN 'changed';
            END IF;
            IF windlass.own_gates(w) IS DISTINCT FROM windlass.own_gates(c) THEN
                PERFORM windlass.drop_passes(ARRAY[p_job], 'all', true);
            END IF;
            UPDATE windlass.wait y SET until = greatest(y.until, v_at)
             WHERE y.job = p_job AND y.claim = d.suspended AND y.until IS NOT NULL AND v_at IS NOT NULL;
            -- A new xid: the watermark of promote may have passed the new time already.
            UPDATE windlass.deferred x
               SET queue = c.queue, priority = c.priority, payload = c.payload, options = c.options,
                   run_at = CASE WHEN isfinite(d.run_at) THEN coalesce(v_at, d.run_at) ELSE d.run_at END,
                   not_before = CASE WHEN isfinite(d.run_at) THEN d.not_before
                                     ELSE coalesce(v_at, d.not_before) END,
                   xid = pg_current_xact_id()
             WHERE x.id = p_job;
            RETURN 'changed';
        END IF;
        SELECT x.state INTO p FROM windlass.parent x WHERE x.id = p_job;
        IF FOUND THEN
            RETURN CASE WHEN p.state = 'waiting' THEN 'running' ELSE 'ended' END;
        ELSIF EXISTS (SELECT FROM windlass.dead x WHERE x.id = p_job) THEN
            RETURN 'ended';
        ELSIF NOT windlass.is_unfinished(p_job) THEN
            RETURN 'not_found';
        END IF;
    END LOOP;
    RAISE EXCEPTION 'job % moves too fast to be changed', p_job USING ERRCODE = 'serialization_failure',
        HINT = 'Try again.';
END $$;

-- A job as it is to be. A deadline that still runs counts from its new time [E8].
-- Callers: change. May call: worker. Plan: the caller's. Lock: none; where the deadline changes, its row of
-- expiry.
CREATE OR REPLACE FUNCTION windlass.changed(
    w windlass.held, p_queue text, p_priority smallint, p_at timestamptz, p_payload text, p_options text)
RETURNS windlass.held
LANGUAGE plpgsql AS $$
BEGIN
    w.queue := coalesce(p_queue, w.queue);
    w.priority := coalesce(p_priority, w.priority);
    w.payload := coalesce(p_payload::json, w.payload);
    IF p_options IS NOT NULL THEN
        w.options := nullif(jsonb_strip_nulls(coalesce(w.options::jsonb, '{}') || p_options::jsonb),
                            '{}')::json;
    END IF;
    IF p_at IS NOT NULL AND windlass.may_expire(w.options) THEN
        w.options := windlass.with_deadline(w.options::text, greatest(p_at, windlass.now()))::json;
        UPDATE windlass.expiry e SET at = to_timestamp((w.options ->> 'expires_at')::float8)
         WHERE e.job = w.id;
    END IF;
    RETURN w;
END $$;

-- The gates of a job that come from itself and not from its task: those of its ordering and concurrency key.
-- Callers: change, place_changed. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.own_gates(w windlass.held) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY['order:' || w.queue || '/' || (w.options ->> 'ordering_key'),
                 'key:' || (w.options ->> 'concurrency_key')]
$$;

-- Puts a job that waits nowhere any more where it belongs as changed: behind those that wait there, ready
-- since it was before; or aside until its time, or until the job is gone that it replaces. It keeps its
-- passes where its gates have stayed, but for those of budgets: its arguments may have chosen the bucket.
-- Callers: change. May call: worker. Plan: pinned. Lock: those of declare_lane where it must, tried for 20
-- ms; those of offer. A queue whose lane cannot be declared now has it from promote [rule 11].
CREATE OR REPLACE FUNCTION windlass.place_changed(w windlass.held, c windlass.held, p_at timestamptz)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_now  timestamptz := windlass.now();
    v_gate text;
    v_lane int;
BEGIN
    IF windlass.own_gates(w) IS DISTINCT FROM windlass.own_gates(c) THEN
        PERFORM windlass.drop_passes(ARRAY[c.id], 'all', true);
    ELSE
        DELETE FROM windlass.pass x WHERE x.job = c.id AND x.gate LIKE 'budget:%';
    END IF;
    v_gate := windlass.next_gate(c.id, c.queue, c.task, c.options);
    IF p_at > v_now OR c.replaces IS NOT NULL AND coalesce(v_gate NOT LIKE 'order:%', true) THEN
        PERFORM windlass.drop_passes(ARRAY[c.id], 'attempt', true);
        INSERT INTO windlass.deferred (id, run_at, enqueued_at, queue, priority, attempt, deaths, task,
                                       payload, options, replaces)
        VALUES (c.id, coalesce(p_at, v_now), c.enqueued_at, c.queue, c.priority, c.attempt, c.deaths, c.task,
                c.payload, c.options, c.replaces);
        RETURN;
    END IF;
    IF v_gate IS NOT NULL OR c.options ->> 'fair_key' IS NOT NULL THEN
        PERFORM windlass.mark_gates_changed(ARRAY[v_gate]);
        INSERT INTO windlass.held (id, since, enqueued_at, queue, priority, attempt, deaths, gate, fair_key,
                                   task, payload, options, replaces)
        VALUES (c.id, c.since, c.enqueued_at, c.queue, c.priority, c.attempt, c.deaths, v_gate,
                CASE WHEN v_gate IS NULL THEN c.options ->> 'fair_key' END, c.task, c.payload, c.options,
                c.replaces);
        RETURN;
    END IF;
    v_lane := windlass.try_lane(c.queue, c.priority, windlass.abilities_of(c.options));
    IF v_lane IS NULL THEN
        INSERT INTO windlass.deferred (id, run_at, enqueued_at, queue, priority, attempt, deaths, task,
                                       payload, options)
        VALUES (c.id, v_now, c.enqueued_at, c.queue, c.priority, c.attempt, c.deaths, c.task, c.payload,
                c.options);
        PERFORM windlass.wake('+');
    ELSE
        PERFORM windlass.offer(v_lane, 1, ARRAY[c.task], ARRAY[c.payload::text], ARRAY[c.options::text],
                               ARRAY[c.id], ARRAY[c.attempt], ARRAY[c.deaths], ARRAY[c.enqueued_at],
                               ARRAY[c.since]);
    END IF;
END $$;

-- ==== Statements that the store sends ====

-- :ring_of
-- In whose ring a job waits for the turn of its fair key: queue, priority and abilities.
-- Callers: the store's change. Lock: none.
SELECT h.queue, h.priority, windlass.abilities_of(h.options) AS abilities FROM windlass.held h
 WHERE h.id = $1 AND h.gate IS NULL
