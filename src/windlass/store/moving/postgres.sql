-- Jobs that come from elsewhere with a past: another store, or a table of the user's own.

-- Adds jobs that have attempts behind them, and never adds one twice: `source` names where they come from,
-- and each has a key of its own there. Returns a row for each: its key, its id here, and 'imported', 'dead',
-- 'repeated' (it was added before) or 'skipped' and 'rerun' (a job here holds its unique key, see Receipt).
-- Callers: users, the store. May call: worker. Plan: free. Lock: the rows of the marks and of unique keys; no
-- lane; ACCESS SHARE on claim for a job that comes after others, as in finish.
-- jobs is a JSON array of objects: key, task; args, queue, priority, run_at, attempt (the next one, from 1),
-- deaths, enqueued_at, options (by the names that enqueue has; timeout in seconds), errors (type, message,
-- traceback, attempt, at), checkpoint (data, done, total), steps (name, result, code, attempt, at, until;
-- with `until` it is a sleep), stream (position, n, run, attempt, at, events; in order), waits (name of the
-- step, signal, at, until, shape; `suspended`: the job waits for it now) and signals (name, value, at; in
-- order, those that it has not taken), after (keys of the same source), state ('dead': it goes to the dead
-- letters; 'retrying'), reason, ended_at, rerun, in_turn. Queues do not judge them: somebody has accepted
-- them already [F4]. They wait in deferred, due now or later, and promote offers them in order.
--   SELECT * FROM windlass.import_jobs('old', '[{"key": "1", "task": "mail.send", "attempt": 3}]');
CREATE OR REPLACE FUNCTION windlass.import_jobs(source text, jobs json)
RETURNS TABLE (key text, job bigint, status text)
LANGUAGE sql SECURITY DEFINER AS $$
    SELECT * FROM windlass.import_rows(source, jobs, NULL)
$$;

-- The same; p_parent: the parent whose parts these are, each by its `part` [P4]. A value that no cast takes is
-- refused like any other that is malformed.
-- Callers: import_jobs, import_parent. May call: worker. Plan: pinned. Lock: as there. One by one: each step
-- of a job depends on whether its mark and its key were free.
CREATE OR REPLACE FUNCTION windlass.import_rows(p_source text, p_jobs json, p_parent bigint)
RETURNS TABLE (key text, job bigint, status text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    c_priorities CONSTANT text[] := ARRAY['urgent', 'high', 'normal', 'low'];
    c_fields     CONSTANT text[] := ARRAY[
        'key', 'task', 'args', 'queue', 'priority', 'run_at', 'attempt', 'deaths', 'enqueued_at', 'options',
        'errors', 'checkpoint', 'steps', 'stream', 'waits', 'signals', 'signal_keys', 'after', 'state',
        'reason', 'ended_at', 'rerun', 'in_turn', 'part'];
    j            record;
    v_now        timestamptz := windlass.now();
    v_priority   smallint;
    v_options    jsonb;
    v_after      bigint[];
    v_states     text[];
    v_at         timestamptz;
    v_errors     json;
    v_unknown    text;
BEGIN
    IF p_source IS NULL OR p_source = '' THEN
        RAISE EXCEPTION 'the source has no name' USING ERRCODE = 'WL005',
            HINT = 'Name where the jobs come from: a repeated call knows by it what it has added.';
    END IF;
    IF NOT EXISTS (SELECT FROM windlass.epoch_mark e
                    WHERE e.place = 'windlass.epoch_mark'::regclass::oid::bigint) THEN
        PERFORM windlass.skip_ids();
    END IF;
    -- A field that nobody reads would leave a job's past behind without a word.
    SELECT min(x.name) INTO v_unknown
      FROM json_array_elements(p_jobs) AS e (item), json_object_keys(e.item) AS x (name)
     WHERE x.name <> ALL (c_fields);
    IF v_unknown IS NOT NULL THEN
        RAISE EXCEPTION 'a job has no field %', quote_literal(v_unknown) USING ERRCODE = 'WL005',
            HINT = 'Its fields are ' || array_to_string(c_fields, ', ') || '.';
    END IF;
    FOR j IN
        SELECT * FROM json_to_recordset(p_jobs)
            AS x (key text, task text, args json, queue text, priority text, run_at timestamptz, attempt int,
                  deaths int, enqueued_at timestamptz, options json, errors json, checkpoint json, steps json,
                  stream json, waits json, signals json, signal_keys json, after json, state text,
                  reason text, ended_at timestamptz, rerun json, in_turn boolean, part json)
    LOOP
        IF j.key IS NULL THEN
            RAISE EXCEPTION 'a job of task % has no key', coalesce(j.task, 'NULL') USING ERRCODE = 'WL005',
                HINT = 'Give its id in the source: a repeated call knows by it what it has added.';
        END IF;
        key := j.key;
        INSERT INTO windlass.imported AS m (source, key, job, at)
        VALUES (p_source, j.key, nextval('windlass.job_id'), v_now)
        ON CONFLICT DO NOTHING RETURNING m.job INTO job;
        IF job IS NULL THEN
            SELECT m.job INTO job FROM windlass.imported m WHERE m.source = p_source AND m.key = j.key;
            status := 'repeated';
            RETURN NEXT;
            CONTINUE;
        END IF;
        j.queue := coalesce(j.queue, 'default');
        j.attempt := coalesce(j.attempt, 1);
        j.deaths := coalesce(j.deaths, 0);
        j.args := coalesce(j.args, '{}');
        v_priority := array_position(c_priorities, coalesce(j.priority, 'normal')) - 1;
        PERFORM windlass.check_name('task', j.task), windlass.check_name('queue', j.queue),
                windlass.check_payload(j.args::text);
        v_options := windlass.check_options(coalesce(j.options, '{}')::text)::jsonb - 'after';
        PERFORM windlass.check_new(v_priority, NULL, j.run_at, 'skip', NULL, v_options ->> 'unique_key');
        IF j.attempt NOT BETWEEN 1 AND 32767 OR j.deaths NOT BETWEEN 0 AND 32767
           OR j.state NOT IN ('ready', 'scheduled', 'retrying', 'dead') THEN
            RAISE EXCEPTION 'job % has attempt %, % deaths and state %', quote_literal(j.key), j.attempt,
                j.deaths, coalesce(j.state, 'none') USING ERRCODE = 'WL005',
                HINT = 'attempt counts from 1, deaths from 0; state is ready, scheduled, retrying or dead.';
        END IF;
        -- A job that has begun where it comes from expires no more [E8].
        IF v_options ? 'expires' AND j.attempt = 1 AND j.deaths = 0 AND j.state IS DISTINCT FROM 'dead' THEN
            v_options := CASE WHEN j.options ->> 'expires_at' IS NULL
                         THEN windlass.with_deadline(
                             v_options::text, greatest(j.run_at, coalesce(j.enqueued_at, v_now)))::jsonb
                         ELSE v_options || jsonb_build_object('expires_at',
                                                              (j.options ->> 'expires_at')::float8) END;
        END IF;
        IF p_parent IS NOT NULL THEN
            v_options := coalesce(v_options, '{}') || jsonb_build_object(
                'part', j.part::jsonb || jsonb_build_object('parent', p_parent));
        END IF;
        PERFORM windlass.check_past(j.key, j.enqueued_at, j.ended_at, j.errors, j.checkpoint, j.steps,
                                    j.stream, j.waits, j.signals, j.signal_keys);
        SELECT coalesce(json_agg(json_build_object(
                   'type', coalesce(e ->> 'type', ''), 'message', coalesce(e ->> 'message', ''),
                   'traceback', coalesce(e ->> 'traceback', ''),
                   'attempt', coalesce((e ->> 'attempt')::smallint, 0),
                   'at', coalesce((e ->> 'at')::float8, 0))), '[]')
          INTO v_errors FROM json_array_elements(coalesce(j.errors, '[]')) AS e;
        IF j.state = 'dead' THEN
            INSERT INTO windlass.dead (id, enqueued_at, died_at, priority, attempt, deaths, queue, task,
                                       reason, payload, options, errors, error)
            VALUES (job, coalesce(j.enqueued_at, v_now), coalesce(j.ended_at, v_now), v_priority, j.attempt,
                    j.deaths, j.queue, j.task, coalesce(j.reason, 'attempts exhausted'), j.args, v_options,
                    v_errors, coalesce(v_errors -> -1 ->> 'type', ''));
            INSERT INTO windlass.ended_otherwise (job, at, kind) VALUES (job, v_now, 'dead');
            PERFORM windlass.import_steps(job, j.steps);
            PERFORM windlass.import_stream(job, j.stream);
            PERFORM windlass.import_signals(job, j.waits, j.signals, j.signal_keys);
            status := 'dead';
            RETURN NEXT;
            CONTINUE;
        END IF;
        IF v_options ->> 'unique_key' IS NOT NULL THEN
            status := windlass.import_key(p_source, j.key, job, v_options ->> 'unique_key', json_build_object(
                'task', j.task, 'payload', j.args::text, 'queue', j.queue, 'priority', v_priority, 'run_at',
                j.run_at, 'options', v_options::text), j.rerun);
            IF status IS NOT NULL THEN
                SELECT m.job INTO job FROM windlass.imported m WHERE m.source = p_source AND m.key = j.key;
                RETURN NEXT;
                CONTINUE;
            END IF;
        END IF;
        v_after := '{}';
        IF json_array_length(coalesce(j.after, '[]')) > 0 THEN
            -- One by one, here as below: joined, all marks of the source may be read [rule 8].
            SELECT array_agg(DISTINCT x.id) INTO v_after
              FROM (SELECT (SELECT m.job FROM windlass.imported m
                             WHERE m.source = p_source AND m.key = a.key) AS id
                      FROM json_array_elements_text(j.after) AS a (key)) AS x;
            IF array_position(v_after, NULL) IS NOT NULL THEN
                RAISE EXCEPTION 'job % comes after one that was not imported', quote_literal(j.key)
                    USING ERRCODE = 'WL005', HINT = 'Import the jobs that others come after first.';
            END IF;
            v_options := coalesce(v_options, '{}') || jsonb_build_object('after', v_after);
            SELECT coalesce(array_agg(c.on_job), '{}'), array_agg(c.state) INTO v_after, v_states
              FROM windlass.check_after(v_after, true) AS c
             WHERE c.state IS DISTINCT FROM 'succeeded' OR windlass.runs_only_otherwise(v_options::json);
        END IF;
        IF v_after <> '{}' THEN
            PERFORM windlass.add_edges(array_fill(1, ARRAY[cardinality(v_after)]), v_after, v_states,
                                       ARRAY[job], ARRAY['after']);
        END IF;
        v_at := CASE WHEN v_after <> '{}' THEN 'infinity' ELSE coalesce(j.run_at, v_now) END;
        INSERT INTO windlass.deferred (id, run_at, not_before, enqueued_at, queue, priority, attempt, deaths,
                                       retrying, task, payload, options)
        VALUES (job, v_at, CASE WHEN v_after <> '{}' THEN j.run_at END, coalesce(j.enqueued_at, v_now),
                j.queue, v_priority, j.attempt, j.deaths,
                coalesce(j.state = 'retrying', j.attempt > 1),
                j.task, j.args, v_options);
        IF j.in_turn AND v_options ->> 'ordering_key' IS NOT NULL THEN
            PERFORM windlass.import_turn(job, j.queue, v_options ->> 'ordering_key');
        END IF;
        INSERT INTO windlass.failure (segment, job, at, attempt, type, message, traceback)
        SELECT windlass.pin_segment(), job, coalesce(to_timestamp(nullif((e ->> 'at')::float8, 0)), v_now),
               (e ->> 'attempt')::smallint, e ->> 'type', e ->> 'message', e ->> 'traceback'
          FROM json_array_elements(v_errors) AS e;
        IF j.checkpoint IS NOT NULL THEN
            PERFORM windlass.import_checkpoint(job, j.checkpoint);
        END IF;
        PERFORM windlass.note_deadlines(ARRAY[job], ARRAY[v_options::text]);
        PERFORM windlass.import_steps(job, j.steps);
        PERFORM windlass.import_stream(job, j.stream);
        PERFORM windlass.import_signals(job, j.waits, j.signals, j.signal_keys);
        status := 'imported';
        RETURN NEXT;
    END LOOP;
EXCEPTION WHEN data_exception THEN
    RAISE EXCEPTION '% has a value that cannot be read: %', coalesce('job ' || quote_literal(key), 'a job'),
        SQLERRM USING ERRCODE = 'WL005', HINT = 'See the guide "Coming from a SKIP LOCKED table".';
END $$;

-- Refuses a past that nobody could read: one such job would stop every page that lists it.
-- Callers: import_rows, import_parent. May call: worker. Plan: the caller's. Lock: none. Times lie between
-- the years 1970 and 2200.
CREATE OR REPLACE FUNCTION windlass.check_past(
    p_key text, p_enqueued_at timestamptz, p_ended_at timestamptz, p_errors json, p_checkpoint json,
    p_steps json, p_stream json, p_waits json, p_signals json, p_signal_keys json) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_wrong text;
BEGIN
    SELECT f.field INTO v_wrong
      FROM (VALUES ('enqueued_at', NULL, NULL, json_build_array(json_build_object('at', p_enqueued_at))),
                   ('ended_at', NULL, NULL, json_build_array(json_build_object('at', p_ended_at))),
                   ('errors', '{}', true, p_errors), ('steps', '{name}', false, p_steps),
                   ('checkpoint', '{data}', true, CASE WHEN p_checkpoint IS NOT NULL
                                                       THEN json_build_array(p_checkpoint) END),
                   ('stream', '{position,n,run,attempt,events}', false, p_stream),
                   ('waits', '{name,signal}', false, p_waits), ('signals', '{name}', false, p_signals),
                   ('signal_keys', '{key,until}', false, p_signal_keys))
           AS f (field, needed, epoch, items)
     WHERE CASE WHEN f.items IS NULL THEN false WHEN json_typeof(f.items) <> 'array' THEN true
                ELSE EXISTS (
                    SELECT FROM json_array_elements(f.items) AS e (item)
                     WHERE CASE WHEN json_typeof(e.item) <> 'object' THEN true
                                WHEN EXISTS (SELECT FROM unnest(f.needed::text[]) AS n
                                              WHERE e.item ->> n IS NULL) THEN true
                                -- As many events as it says, or one object, which a codec has sealed [W3].
                                WHEN f.field = 'stream' AND json_typeof(e.item -> 'events') <> 'object'
                                     AND CASE WHEN json_typeof(e.item -> 'events') <> 'array' THEN true
                                              ELSE json_array_length(e.item -> 'events')::text
                                                   <> e.item ->> 'n' END THEN true
                                WHEN char_length(e.item ->> 'key') NOT BETWEEN 1 AND 255 THEN true
                                WHEN f.epoch THEN (e.item ->> 'at')::float8 NOT BETWEEN 0 AND 7258118400
                                ELSE (e.item ->> 'at')::timestamptz NOT BETWEEN '1970-01-01' AND '2200-01-01'
                                  OR (e.item ->> 'until')::timestamptz NOT BETWEEN '1970-01-01'
                                                                               AND '2200-01-01' END) END
     LIMIT 1;
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION 'job % has malformed %', quote_literal(p_key), v_wrong USING ERRCODE = 'WL005',
            HINT = 'Lists are arrays of objects with all that they need, and times lie between the years '
                   '1970 and 2200: see the guide "Coming from a SKIP LOCKED table".';
    END IF;
END $$;

-- Takes the unique key of a job that is imported: NULL where it is free, else what became of the job, whose
-- mark then names the one that holds the key. p_rerun: an enqueue that its source remembered for its end.
-- Callers: import_rows, import_parent. May call: worker. Plan: the caller's. Lock: the key's row.
CREATE OR REPLACE FUNCTION windlass.import_key(
    p_source text, p_key text, p_job bigint, p_unique text, p_spec json, p_rerun json) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    u record;
BEGIN
    SELECT t.twin, t.status INTO u FROM windlass.take_unique_key(p_unique, p_job, 'skip', p_spec) AS t;
    IF u.status IS NOT NULL THEN
        UPDATE windlass.imported m SET job = u.twin WHERE m.source = p_source AND m.key = p_key;
    ELSIF p_rerun IS NOT NULL THEN
        -- It is enqueued with the outcome of its twin, which must not fail for it.
        PERFORM windlass.check_name('task', p_rerun ->> 'task'),
                windlass.check_name('queue', coalesce(p_rerun ->> 'queue', 'default')),
                windlass.check_payload(p_rerun ->> 'payload'),
                windlass.check_options(coalesce(p_rerun ->> 'options', '{}')),
                windlass.check_new((p_rerun ->> 'priority')::smallint, (p_rerun ->> 'delay')::float8,
                                   (p_rerun ->> 'run_at')::timestamptz, 'skip', NULL, NULL);
        UPDATE windlass.unique_key k SET rerun = p_rerun, touched = NULL WHERE k.key = p_unique;
    END IF;
    RETURN u.status;
END $$;

-- Gives a job the turn of its ordering key, which it had where it comes from [F6].
-- Callers: import_rows, import_parent. May call: worker. Plan: the caller's. Lock: the row of the key's mark;
-- where the key has none yet, its gate, so that nobody else adds one.
CREATE OR REPLACE FUNCTION windlass.import_turn(p_job bigint, p_queue text, p_key text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_gate text := 'order:' || p_queue || '/' || p_key;
BEGIN
    INSERT INTO windlass.pass (gate, job, need, turn, enqueued_at, at, run)
    VALUES (v_gate, p_job, 1, nextval('windlass.held_turn'), windlass.now(), windlass.now(), NULL);
    IF NOT EXISTS (SELECT FROM windlass.order_mark m WHERE m.queue = p_queue AND m.key = p_key) THEN
        PERFORM pg_advisory_xact_lock(('windlass.held'::regclass::oid::bigint - 2147483648)::int,
                                      hashtext(v_gate));
    END IF;
    PERFORM windlass.move_marks(ARRAY[v_gate], 1);
END $$;

-- Keeps what a job has saved where it comes from.
-- Callers: import_rows, import_parent. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.import_checkpoint(p_job bigint, p_saved json) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO windlass.checkpoint (job, at, done, total, data)
    VALUES (p_job, coalesce(to_timestamp((p_saved ->> 'at')::float8), windlass.now()),
            (p_saved ->> 'done')::bigint, (p_saved ->> 'total')::bigint, p_saved -> 'data');
$$;

-- Keeps the steps that a job has behind it where it comes from [W1].
-- Callers: import_rows. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.import_steps(p_job bigint, p_steps json) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := windlass.now();
BEGIN
    IF p_steps IS NOT NULL THEN
        -- Those written at one moment stay in their order.
        INSERT INTO windlass.step (job, at, until, attempt, name, code, result)
        SELECT p_job, coalesce(s.at, v_now) + interval '1 microsecond'
                      * (row_number() OVER (PARTITION BY s.at ORDER BY s.place) - 1),
               s.until, coalesce(s.attempt, 1), s.name, coalesce(s.code, ''), coalesce(s.result, 'null')
          FROM ROWS FROM (json_to_recordset(p_steps) AS (name text, result json, code text, attempt int,
                                                         at timestamptz, until timestamptz))
               WITH ORDINALITY AS s (name, result, code, attempt, at, until, place);
    END IF;
END $$;

-- Keeps what a job has emitted where it comes from [W3]: under no claim, so that the next run is a new one.
-- Callers: import_rows. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.import_stream(p_job bigint, p_stream json) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_stream IS NOT NULL THEN
        INSERT INTO windlass.stream (job, position, claim, at, n, run, attempt, events)
        SELECT p_job, s.position, 0, coalesce(s.at, windlass.now()), s.n, s.run, s.attempt, s.events
          FROM json_to_recordset(p_stream)
            AS s (position bigint, n int, run int, attempt int, at timestamptz, events json);
    END IF;
END $$;

-- Keeps what a job waits for where it comes from, the signals that it has not taken there, and the
-- idempotency keys of those that it was sent [W2] [E7]. It waits on under claim 0, which no worker has.
-- Callers: import_rows. May call: worker. Plan: pinned. Lock: the job's row, which nobody else sees yet.
CREATE OR REPLACE FUNCTION windlass.import_signals(
    p_job bigint, p_waits json, p_signals json, p_keys json) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_suspended boolean;
BEGIN
    IF p_signals IS NOT NULL THEN
        INSERT INTO windlass.signal (job, no, at, name, value)
        SELECT p_job, nextval('windlass.signal_no'), coalesce(g.at, windlass.now()), g.name,
               coalesce(g.value, 'null')
          FROM json_to_recordset(p_signals) AS g (name text, value json, at timestamptz);
    END IF;
    IF p_keys IS NOT NULL THEN
        INSERT INTO windlass.signal_once (token, until)
        SELECT p_job || '/' || k.key, k.until
          FROM json_to_recordset(p_keys) AS k (key text, until timestamptz) WHERE k.until > windlass.now()
        ON CONFLICT DO NOTHING;
    END IF;
    IF p_waits IS NOT NULL THEN
        WITH added AS (
            INSERT INTO windlass.wait AS w (job, no, claim, at, until, name, signal, shape)
            SELECT p_job, nextval('windlass.signal_no'), CASE WHEN x.suspended THEN 0 ELSE -1 END,
                   coalesce(x.at, windlass.now()), x.until, x.name, x.signal, x.shape
              FROM json_to_recordset(p_waits) AS x (name text, signal text, at timestamptz,
                                                    until timestamptz, shape json, suspended boolean)
            RETURNING w.claim)
        SELECT bool_or(a.claim = 0) INTO v_suspended FROM added a;
        IF v_suspended THEN
            UPDATE windlass.deferred d SET suspended = 0 WHERE d.id = p_job;
        END IF;
    END IF;
END $$;

-- Adds a parent with its parts, in whatever state they are, and the jobs of those parts [P4]. Returns the
-- same rows as import_jobs: first that of the parent, then those of its parts' jobs.
-- Callers: the store. May call: worker. Plan: pinned. Lock: as import_jobs. p_parts: index, span, size,
-- state, attempt, claimed, records, error, job (the key of its job), checkpoint (of a part whose job has
-- ended). A parent whose unique key somebody holds here is left out, with all of its parts.
CREATE OR REPLACE FUNCTION windlass.import_parent(p_source text, p_parent json, p_parts json, p_jobs json)
RETURNS TABLE (key text, job bigint, status text)
LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    p         record;
    t         record;
    v_id      bigint;
    v_now     timestamptz := windlass.now();
    v_options jsonb := windlass.check_options(coalesce(p_parent ->> 'options', '{}'))::jsonb;
BEGIN
    SELECT * INTO p FROM json_to_record(p_parent)
        AS x (key text, task text, args json, queue text, priority smallint, attempt int, deaths int,
              enqueued_at timestamptz, created_at timestamptz, ended_at timestamptz, state text, reason text,
              parallel int, tolerated int, finalizer boolean, final text, final_state text, rerun json,
              in_turn boolean);
    PERFORM windlass.check_name('task', p.task), windlass.check_name('queue', p.queue),
            windlass.check_payload(p.args::text),
            windlass.check_past(p.key, p.enqueued_at, p.ended_at, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
            windlass.check_past(p.key, p.created_at, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    key := p.key;
    IF NOT EXISTS (SELECT FROM windlass.epoch_mark e
                    WHERE e.place = 'windlass.epoch_mark'::regclass::oid::bigint) THEN
        PERFORM windlass.skip_ids();
    END IF;
    INSERT INTO windlass.imported AS m (source, key, job, at)
    VALUES (p_source, p.key, nextval('windlass.job_id'), v_now)
    ON CONFLICT DO NOTHING RETURNING m.job INTO v_id;
    IF v_id IS NULL THEN
        RETURN QUERY SELECT m.key, m.job, 'repeated' FROM windlass.imported m
                      WHERE m.source = p_source AND m.key = p.key;
        RETURN QUERY SELECT x.key, m.job, 'repeated' FROM json_to_recordset(p_jobs) AS x (key text)
                      CROSS JOIN LATERAL (SELECT y.job FROM windlass.imported y
                                           WHERE y.source = p_source AND y.key = x.key OFFSET 0) AS m;
        RETURN;
    END IF;
    IF v_options ->> 'unique_key' IS NOT NULL AND p.state = 'waiting' THEN
        status := windlass.import_key(p_source, p.key, v_id, v_options ->> 'unique_key', json_build_object(
            'task', p.task, 'payload', p.args::text, 'queue', p.queue, 'priority', p.priority, 'options',
            v_options::text), p.rerun);
        IF status IS NOT NULL THEN
            RETURN QUERY SELECT m.key, m.job, status FROM windlass.imported m
                          WHERE m.source = p_source AND m.key = p.key;
            RETURN;
        END IF;
    END IF;
    INSERT INTO windlass.parent (id, claim, enqueued_at, created_at, finished_at, queue, priority, task,
                                 payload, options, attempt, deaths, state, reason, parallel, tolerated,
                                 finalizer, final_state, total, size, pending, out, succeeded, dead,
                                 cancelled, done, records)
    SELECT v_id, 0, p.enqueued_at, p.created_at, p.ended_at, p.queue, p.priority, p.task, p.args, v_options,
           p.attempt, p.deaths, p.state, p.reason, p.parallel, p.tolerated, p.finalizer, p.final_state,
           count(*), coalesce(sum(x.size), 0), count(*) FILTER (WHERE x.state = 'pending'),
           count(*) FILTER (WHERE x.state = 'out'), count(*) FILTER (WHERE x.state = 'succeeded'),
           count(*) FILTER (WHERE x.state = 'dead'), count(*) FILTER (WHERE x.state = 'cancelled'),
           coalesce(sum(x.size) FILTER (WHERE x.state = 'succeeded'), 0),
           coalesce(sum(x.records) FILTER (WHERE x.state = 'succeeded'), 0)
      FROM json_to_recordset(p_parts) AS x (index int, size bigint, state text, records bigint)
     WHERE x.index >= 0;
    job := v_id;
    status := 'imported';
    RETURN NEXT;
    RETURN QUERY SELECT * FROM windlass.import_rows(p_source, p_jobs, v_id);
    FOR t IN SELECT x.*, (SELECT m.job FROM windlass.imported m
                           WHERE m.source = p_source AND m.key = x.job) AS own
               FROM json_to_recordset(p_parts)
                 AS x (index int, span json, size bigint, state text, attempt int, claimed boolean,
                       records bigint, error text, job text, checkpoint json)
    LOOP
        -- What an ended part has saved is kept under the job that it had; redrive looks for it there.
        IF t.own IS NULL AND t.checkpoint IS NOT NULL THEN
            t.own := nextval('windlass.job_id');
        END IF;
        INSERT INTO windlass.part (parent, index, span, size, state, job, attempt, claimed, records, error)
        VALUES (v_id, t.index, t.span, t.size, t.state, t.own, t.attempt, t.claimed, t.records, t.error);
        IF t.checkpoint IS NOT NULL THEN
            PERFORM windlass.import_checkpoint(t.own, t.checkpoint);
        END IF;
    END LOOP;
    UPDATE windlass.parent x SET final = t.job FROM windlass.part t
     WHERE x.id = v_id AND t.parent = v_id AND t.index = -1;
    IF p.in_turn AND v_options ->> 'ordering_key' IS NOT NULL THEN
        PERFORM windlass.import_turn(v_id, p.queue, v_options ->> 'ordering_key');
    END IF;
END $$;

-- Remembers idempotency keys, and how often the jobs of unique keys have died, as their source did [E7] [O7].
-- A key whose job did not come along names a job that is gone: to send it again still adds nothing.
-- Callers: the store. May call: worker. Plan: pinned. Lock: none. What is known here already stays.
CREATE OR REPLACE FUNCTION windlass.import_keys(p_source text, p_keys json, p_deaths json) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
    INSERT INTO windlass.idempotency (key, job, at)
    SELECT x.key, coalesce((SELECT m.job FROM windlass.imported m
                             WHERE m.source = p_source AND m.key = x.job), nextval('windlass.job_id')), x.at
      FROM json_to_recordset(p_keys) AS x (key text, job text, at timestamptz)
    ON CONFLICT DO NOTHING;
    INSERT INTO windlass.key_death (key, at, deaths)
    SELECT x.key, x.at, x.deaths FROM json_to_recordset(p_deaths) AS x (key text, at timestamptz, deaths int)
    ON CONFLICT DO NOTHING;
$$;

-- Says what a schedule did where it comes from, so that it neither fires twice nor overlaps [K4].
-- Callers: the store. May call: worker. Plan: free. Lock: the schedule's row.
CREATE OR REPLACE FUNCTION windlass.import_schedule(
    p_source text, p_name text, p_last_at float8, p_last text, p_skipped bigint) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
    UPDATE windlass.schedule s
       SET last_at = p_last_at, skipped = p_skipped,
           last_job = (SELECT m.job FROM windlass.imported m WHERE m.source = p_source AND m.key = p_last)
     WHERE s.name = p_name AND s.last_at IS NULL
$$;

-- Forgets which jobs of a source were imported, and returns how many that were. The jobs stay; to import the
-- same keys once more would add them once more.
-- Callers: users. May call: worker. Plan: free. Lock: the rows of the marks.
CREATE OR REPLACE FUNCTION windlass.forget_import(source text) RETURNS bigint
LANGUAGE sql SECURITY DEFINER AS $$
    WITH gone AS (DELETE FROM windlass.imported m WHERE m.source = forget_import.source RETURNING 1)
    SELECT count(*) FROM gone
$$;
