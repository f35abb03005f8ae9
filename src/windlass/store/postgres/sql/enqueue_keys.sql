-- Adding one job that is more than plain; what every new job is checked for; unique and idempotency keys,
-- from when they are taken until they are free again.

-- ==== One job ====

-- Adds one job that is more than plain: delayed, unique, idempotent or after others. Returns its id and what
-- became of it (see Receipt).
-- Callers: enqueue, enqueue_mixed, the store and the adapters, free_key, fire_schedule. May call: worker,
-- producer. Plan: free. Lock: the row of its unique or idempotency key until the transaction ends; never a
-- lane. Such a job draws its id before its place, so that its keys can name it. p_options is the JSON of its
-- options. p_automatic: by a schedule or a reconciler, so it may be parked [O7]. p_known: the jobs that it
-- comes after were there when it was asked for; if one is gone since, its policy decides [P12]. p_judge:
-- refuse it where its queue is overloaded [F4] [F5]; off for jobs that the store makes itself, and for those
-- that check_call_load has judged.
CREATE OR REPLACE FUNCTION windlass.enqueue_one(
    p_task text, p_payload text, p_queue text, p_priority smallint, p_delay float8, p_run_at timestamptz,
    p_options text, p_on_conflict text, p_idempotency_key text, p_automatic boolean DEFAULT false,
    p_known boolean DEFAULT false, p_judge boolean DEFAULT true, OUT job bigint, OUT status text)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_now      timestamptz := windlass.now();
    v_run_at   timestamptz;
    v_key      text := p_options::json ->> 'unique_key';
    v_fair     text := p_options::json ->> 'fair_key';
    v_gate     text;
    v_lane     int;
    v_twin     bigint;
    v_replaces bigint;
    v_after    bigint[];
    v_states   text[];
BEGIN
    PERFORM windlass.check_name('task', p_task), windlass.check_name('queue', p_queue),
            windlass.check_payload(p_payload);
    IF p_options IS NOT NULL THEN
        p_options := windlass.check_options(p_options);
    END IF;
    PERFORM windlass.check_new(p_priority, p_delay, p_run_at, p_on_conflict, p_idempotency_key, v_key);
    v_run_at := coalesce(p_run_at, v_now + make_interval(secs => p_delay));
    p_options := windlass.with_deadline(p_options, greatest(v_run_at, v_now));
    IF NOT EXISTS (SELECT FROM windlass.epoch_mark e
                    WHERE e.place = 'windlass.epoch_mark'::regclass::oid::bigint) THEN
        PERFORM windlass.skip_ids();
    END IF;
    job := nextval('windlass.job_id');
    IF p_idempotency_key IS NOT NULL THEN
        SELECT i.job INTO v_twin FROM windlass.take_idempotency_key(p_idempotency_key, job) AS i (job)
         WHERE i.job <> enqueue_one.job;
        IF FOUND THEN
            job := v_twin;
            status := 'repeated';
            DELETE FROM windlass.unique_key u WHERE u.key = v_key AND u.job = 0;  -- see lock_keys
            RETURN;
        END IF;
    END IF;
    IF p_judge THEN
        PERFORM windlass.check_load(p_queue, p_priority, 1);
    END IF;
    IF p_options::json -> 'after' IS NOT NULL THEN
        v_after := ARRAY(SELECT DISTINCT a.id::bigint
                           FROM json_array_elements_text(p_options::json -> 'after') AS a (id));
        SELECT array_agg(c.on_job), array_agg(c.state) INTO v_after, v_states
          FROM windlass.check_after(v_after, p_known) AS c
         WHERE c.state IS DISTINCT FROM 'succeeded' OR windlass.runs_only_otherwise(p_options::json);
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
          FROM windlass.take_unique_key(v_key, job, p_on_conflict,
                                 json_build_object('task', p_task, 'payload', p_payload, 'queue', p_queue,
                                                   'priority', p_priority, 'delay', p_delay, 'run_at',
                                                   p_run_at, 'options', p_options)) AS u;
        IF status IN ('skipped', 'rerun') THEN
            UPDATE windlass.idempotency i SET job = v_twin WHERE i.key = p_idempotency_key;
            job := v_twin;
            RETURN;
        END IF;
    END IF;
    v_lane := windlass.lane_for(p_queue, p_priority, windlass.abilities_of(p_options::json));
    v_gate := windlass.next_gate(job, p_queue, p_task, p_options::json);
    IF v_after IS NOT NULL OR p_options::json ->> 'group_end' = 'true' THEN
        INSERT INTO windlass.deferred (id, run_at, not_before, enqueued_at, queue, priority, task, payload,
                                       options, replaces)
        VALUES (job, 'infinity', v_run_at, v_now, p_queue, p_priority, p_task, p_payload::json,
                p_options::json, v_replaces);
        IF v_after IS NOT NULL THEN
            PERFORM windlass.add_edges(array_fill(1, ARRAY[cardinality(v_after)]), v_after, v_states,
                                       ARRAY[job], ARRAY['after']);
        END IF;
        -- A job that waits for itself ends a group that is open: see close_group.
        INSERT INTO windlass.after_edge (job, on_job, fresh)
        SELECT enqueue_one.job, enqueue_one.job, false WHERE p_options::json ->> 'group_end' = 'true';
        status := coalesce(status, 'scheduled');
    -- One of an ordering key joins its list at once, where its turn is that of its commit [F6].
    ELSIF v_run_at > v_now OR v_replaces IS NOT NULL AND coalesce(v_gate NOT LIKE 'order:%', true)
          OR v_lane IS NULL AND v_gate IS NULL THEN
        INSERT INTO windlass.deferred (id, run_at, enqueued_at, queue, priority, task, payload, options,
                                       replaces)
        VALUES (job, coalesce(v_run_at, v_now), v_now, p_queue, p_priority, p_task, p_payload::json,
                p_options::json, v_replaces);
        status := coalesce(status, CASE WHEN v_run_at > v_now THEN 'scheduled' ELSE 'enqueued' END);
    ELSIF v_gate IS NOT NULL OR v_fair IS NOT NULL THEN
        PERFORM windlass.mark_gates_changed(ARRAY[v_gate]);
        INSERT INTO windlass.held (id, since, enqueued_at, queue, priority, gate, fair_key,
                                   task, payload, options, replaces)
        VALUES (job, v_now, v_now, p_queue, p_priority, v_gate, CASE WHEN v_gate IS NULL THEN v_fair END,
                p_task, p_payload::json, p_options::json, v_replaces);
        status := coalesce(status, 'held');
    ELSE
        PERFORM windlass.offer(v_lane, 1, ARRAY[p_task], ARRAY[p_payload], ARRAY[p_options], ARRAY[job]);
        status := coalesce(status, 'enqueued');
    END IF;
    IF p_options LIKE '%"expires_at"%' THEN
        PERFORM windlass.note_deadlines(ARRAY[job], ARRAY[p_options]);
    END IF;
END $$;

-- ==== Checks ====

-- Refuses a malformed task or queue name [E4].
-- Callers: change, enqueue_many, enqueue_aside, enqueue_mixed, enqueue_one, import_rows, import_key,
-- import_parent, declare_lane, check_settings, throttle. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.check_name(p_what text, p_name text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_name IS NULL OR p_name !~ '^[a-z0-9_.-]{1,:names.MAX_LENGTH}$' THEN
        RAISE EXCEPTION '% name % is malformed', p_what, quote_nullable(left(p_name, 80))
            USING ERRCODE = 'WL005',
                  HINT = 'Use 1 to :names.MAX_LENGTH characters of a-z, 0-9, "_", "." and "-".';
    END IF;
END $$;

-- Refuses a payload that is too large or holds a NUL [E4].
-- Callers: change, enqueue_many, enqueue_mixed, enqueue_one, import_rows, import_key, import_parent. May
-- call: worker. Plan: the caller's. Lock: none. An escaped backslash may stand before u0000: an odd number
-- makes it a NUL.
CREATE OR REPLACE FUNCTION windlass.check_payload(p_payload text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF octet_length(p_payload) > :fields.MAX_BYTES THEN
        RAISE EXCEPTION 'the payload has % bytes, more than 1 MiB', octet_length(p_payload)
            USING ERRCODE = 'WL007', HINT = 'Store the data elsewhere and enqueue a reference to it.';
    END IF;
    IF p_payload IS NULL OR json_typeof(p_payload::json) NOT IN ('object', 'array') THEN
        RAISE EXCEPTION 'the payload must be a JSON object or array' USING ERRCODE = 'WL005';
    END IF;
    IF position(E'\\u0000' IN p_payload) > 0 AND p_payload ~ E'(^|[^\\\\])(\\\\\\\\)*\\\\u0000' THEN
        RAISE EXCEPTION 'the payload holds a NUL character' USING ERRCODE = 'WL005';
    END IF;
END $$;

-- Refuses options that no worker could read [E4]: every claim with such a job would fail [fault 17].
-- Callers: change, enqueue_many, enqueue_mixed, enqueue_one, import_rows, import_key, import_parent. May
-- call: worker. Plan: the caller's. Lock: none. Returns them normalized: JSON text may repeat a key, write 5
-- as 5e0, or name abilities in any order. Options that only the store may set (unknown_since, part,
-- expires_at) are dropped. The rules here are those of internal options; setting_rules.py puts the others in
-- place of the comment when the functions are loaded.
CREATE OR REPLACE FUNCTION windlass.check_options(p_options text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    o       jsonb := p_options::jsonb;
    v_wrong text := CASE
        WHEN jsonb_typeof(o) <> 'object' THEN 'options: an object'
        WHEN jsonb_typeof(o -> 'replay_of') NOT IN ('number', 'null')
          OR o ->> 'replay_of' !~ '^[1-9][0-9]{0,18}$'
             OR (o ->> 'replay_of')::numeric > 9223372036854775807 THEN 'replay_of: the id of a job'
        WHEN jsonb_typeof(o -> 'chunked') <> 'boolean' THEN 'chunked: true or false'
        WHEN jsonb_typeof(o -> 'group_end') <> 'boolean' THEN 'group_end: true or false'
        WHEN jsonb_typeof(o -> 'task_limit') NOT IN ('number', 'null')
          OR o ->> 'task_limit' !~ '^[1-9][0-9]{0,8}$'
             THEN 'task_limit: a whole number from 1 to 999,999,999'
        WHEN jsonb_typeof(o -> 'costs') <> 'object'
          OR o @? 'strict $.costs.* ? '
                  '(@.type() != "number" || @ < 1 || @ > :budgets.MOST_TOKENS || @.floor() != @)'
             THEN 'costs: by budget a whole number from 1 to 1,000,000,000'
        /* rules of the options of a job */ END;
BEGIN
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION 'the option % is malformed', split_part(v_wrong, ':', 1) USING ERRCODE = 'WL005',
            HINT = 'Write ' || split_part(v_wrong, ': ', 2) || '.';
    END IF;
    IF o ? 'needs' THEN
        o := jsonb_set(o, '{needs}', to_jsonb(array_to_string(ARRAY(
                SELECT DISTINCT n COLLATE "C" FROM unnest(string_to_array(o ->> 'needs', ',')) AS n
                 ORDER BY 1), ',')));
    END IF;
    RETURN nullif((o - 'unknown_since' - 'part' - 'expires_at')::text, '{}');
END $$;

-- Refuses a new job whose priority, times, keys or on_conflict are malformed [E4].
-- Callers: change, enqueue_one, enqueue_mixed, import_rows, import_key. May call: worker.
-- Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.check_new(
    p_priority smallint, p_delay float8, p_run_at timestamptz, p_on_conflict text, p_idempotency_key text,
    p_unique_key text)
RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_on_conflict IS NULL OR p_on_conflict NOT IN (:fields.OnConflict) THEN
        RAISE EXCEPTION 'on_conflict must be skip, replace or reject' USING ERRCODE = 'WL005';
    ELSIF p_priority IS NULL OR p_priority NOT BETWEEN 0 AND 3 THEN
        RAISE EXCEPTION 'priority must be urgent, high, normal or low' USING ERRCODE = 'WL005';
    ELSIF p_run_at NOT BETWEEN '1970-01-01' AND '2200-01-01' OR p_delay NOT BETWEEN 0 AND 3155760000 THEN
        RAISE EXCEPTION 'the time to run at is out of range' USING ERRCODE = 'WL005',
            HINT = 'Use a time between the years 1970 and 2200, or a delay of up to 100 years.';
    -- One of many has its number behind the key.
    ELSIF char_length(p_unique_key) NOT BETWEEN 1 AND :fields.MAX_KEY
          OR char_length(p_idempotency_key) NOT BETWEEN 1 AND :fields.MAX_KEY
             AND char_length(regexp_replace(p_idempotency_key, '/[0-9]{1,10}$', ''))
                 NOT BETWEEN 1 AND :fields.MAX_KEY THEN
        RAISE EXCEPTION 'a key is a text of 1 to :fields.MAX_KEY characters' USING ERRCODE = 'WL005';
    END IF;
END $$;

-- ==== Taking keys ====

-- Takes the keys of a call that adds several jobs, in one order and before anything is added. Of two calls
-- that share keys, one waits at the first of them, and holds nothing that the other waits for [E6] [E7].
-- Callers: enqueue_mixed. May call: worker, producer. Plan: free. Lock: the rows of the keys until the
-- transaction ends. Idempotency keys come first, as they do in enqueue_one. A key that has no row gets one
-- with job 0, which does not exist: take_idempotency_key and take_unique_key take it over, and enqueue_one
-- removes what it did not need. A key that is too long is refused there.
CREATE OR REPLACE FUNCTION windlass.lock_keys(p_idempotency text[], p_unique text[]) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
    -- A no-op update still locks the row.
    INSERT INTO windlass.idempotency AS i (key, job, at)
    SELECT DISTINCT k COLLATE "C", 0, timestamptz '-infinity' FROM unnest(p_idempotency) AS k
     WHERE char_length(k) <= 266
     ORDER BY 1
    ON CONFLICT (key) DO UPDATE SET job = i.job WHERE false;
    INSERT INTO windlass.unique_key AS u (key, job)
    SELECT DISTINCT k COLLATE "C", 0 FROM unnest(p_unique) AS k
     WHERE char_length(k) <= :fields.MAX_KEY ORDER BY 1
    ON CONFLICT (key) DO UPDATE SET job = u.job WHERE false;
$$;

-- Takes an idempotency key for a job, or returns the job that has it [E7].
-- Callers: enqueue_one. May call: worker. Plan: the caller's. Lock: the key's row. It waits for a concurrent
-- holder, and takes over an expired key.
CREATE OR REPLACE FUNCTION windlass.take_idempotency_key(p_key text, p_job bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_job bigint;
BEGIN
    INSERT INTO windlass.idempotency AS i (key, job, at) VALUES (p_key, p_job, windlass.now())
    ON CONFLICT (key) DO UPDATE SET job = excluded.job, at = excluded.at
     WHERE i.at <= windlass.now() - make_interval(secs => (SELECT idempotency_retention FROM windlass.meta))
    RETURNING i.job INTO v_job;
    IF v_job IS NULL THEN
        SELECT i.job INTO v_job FROM windlass.idempotency i WHERE i.key = p_key;
    END IF;
    RETURN v_job;
END $$;

-- Takes a unique key for a job, or says what to do about the twin that holds it [E6].
-- Callers: enqueue_one, import_key. May call: worker. Plan: the caller's. Lock: the key's row until the
-- transaction ends.
-- status NULL: the key is ours. 'skipped' or 'rerun': the twin stands in for the new job. 'replaced': the key
-- is ours now; `replaces` names the twin where it waits in a lane, to be ended by replace_step (no producer
-- takes a lane lock). A twin outside the logs is removed here.
CREATE OR REPLACE FUNCTION windlass.take_unique_key(
    p_key text, p_job bigint, p_on_conflict text, p_spec json, OUT twin bigint, OUT status text,
    OUT replaces bigint)
LANGUAGE plpgsql AS $$
DECLARE
    u         windlass.unique_key;
    v_running boolean;
    v_gate    text;
BEGIN
    LOOP
        INSERT INTO windlass.unique_key (key, job) VALUES (p_key, p_job) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN;
        END IF;
        SELECT * INTO u FROM windlass.unique_key WHERE key = p_key FOR UPDATE;
        EXIT WHEN FOUND;
    END LOOP;
    IF u.job = 0 THEN
        UPDATE windlass.unique_key SET job = p_job WHERE key = p_key;  -- see lock_keys
        RETURN;
    END IF;
    -- As in finish: the snapshots that say where the twin is must be younger than any rotation that moved it.
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    IF NOT windlass.is_unfinished(u.job) THEN
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            -- An old snapshot cannot see a twin that a rotation has carried since.
            RAISE EXCEPTION 'job %, which holds the key, is not visible to this transaction', u.job
                USING ERRCODE = 'serialization_failure', HINT = 'Run the transaction again.';
        END IF;
        -- Its job has ended while this transaction or another held the key: see settle. The new job takes it
        -- over, and with it any edit that was waiting for a rerun.
        UPDATE windlass.unique_key SET job = p_job, rerun = NULL, touched = NULL WHERE key = p_key;
        DELETE FROM windlass.unsettled WHERE job = u.job;
        RETURN;
    END IF;
    twin := u.job;
    IF p_on_conflict = 'reject' THEN
        RAISE EXCEPTION 'unique key % is held by job %', quote_literal(p_key), u.job USING ERRCODE = 'WL001',
            DETAIL = u.job::text, HINT = 'Wait until that job has ended, or use on_conflict skip or replace.';
    END IF;
    -- A parent that waits for its parts has started, too, and so has a job that sleeps, waits for a signal or
    -- is tried again with steps behind it: those are not done again, so it would not see an edit.
    v_running := EXISTS (SELECT FROM windlass.locate(u.job) l WHERE l.claim IS NOT NULL AND l.kind IS NULL)
              OR EXISTS (SELECT FROM windlass.parent p WHERE p.id = u.job)
              OR EXISTS (SELECT FROM windlass.step s WHERE s.job = u.job)
              OR EXISTS (SELECT FROM windlass.wait w WHERE w.job = u.job);
    IF v_running THEN
        UPDATE windlass.unique_key SET rerun = p_spec, touched = NULL WHERE key = p_key;
        status := 'rerun';
    ELSIF p_on_conflict = 'skip' THEN
        -- Remembered anyway: the twin may be claimed before this transaction commits. See settle.
        UPDATE windlass.unique_key SET rerun = p_spec, touched = pg_current_xact_id()
         WHERE key = p_key AND (rerun IS NULL OR touched IS NOT NULL);
        status := 'skipped';
    ELSE
        status := 'replaced';
        DELETE FROM windlass.held h WHERE h.id = u.job RETURNING h.replaces, h.gate INTO replaces, v_gate;
        IF replaces IS NOT NULL THEN
            PERFORM windlass.mark_gates_changed(ARRAY[v_gate], true);  -- others waited behind it
        ELSIF NOT FOUND THEN
            DELETE FROM windlass.deferred d WHERE d.id = u.job RETURNING d.replaces INTO replaces;
            IF NOT FOUND THEN
                replaces := u.job;
            END IF;
        END IF;
        UPDATE windlass.unique_key SET job = p_job, rerun = NULL, touched = NULL WHERE key = p_key;
        IF replaces IS NULL THEN
            PERFORM windlass.drop_passes(ARRAY[u.job], 'all', true);
        END IF;
        IF replaces IS DISTINCT FROM u.job THEN
            -- It is removed without success: see follow.
            INSERT INTO windlass.ended_otherwise (job, at, kind) VALUES (u.job, windlass.now(), 'replaced')
            ON CONFLICT DO NOTHING;
            PERFORM windlass.note_ends(ARRAY[u.job], 'replaced');
        END IF;
        DELETE FROM windlass.checkpoint WHERE checkpoint.job = u.job AND replaces IS NULL;
    END IF;
END $$;

-- Whether automatic enqueues of a unique key are parked: its last runs all died, and the last one recently
-- [O7].
-- Callers: enqueue_one. May call: worker. Plan: indexed. Lock: none.
-- `parked_until` in core/retry.py has the same rule.
CREATE OR REPLACE FUNCTION windlass.is_parked(p_key text) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT EXISTS (SELECT FROM windlass.key_death k, windlass.meta m
                    WHERE k.key = p_key AND k.deaths >= m.park_after
                      AND windlass.now() < k.at + interval ':retry.FORGET_AFTER s'
                      AND windlass.now() < k.at + least(
                              interval ':retry.FIRST_PARKING s'
                              * 2 ^ least(k.deaths - m.park_after, :retry.MAX_EXPONENT),
                              interval ':retry.LONGEST_PARKING s'))
$$;

-- ==== Freeing keys ====

-- Frees the unique key of a job that has ended, and enqueues the rerun asked for in the meantime [E6]. False:
-- a producer's transaction holds the key.
-- Callers: settle, settle_rest. May call: worker. Plan: the caller's. Lock: the key's row, without waiting.
-- An enqueue that met the twin waiting left `touched`; it counts only if the snapshot of the twin's claim
-- could not see it, for then the twin may have started before the edit was there (no claim: the twin never
-- started, so no rerun is owed). One that met the twin running left no `touched` and always counts.
CREATE OR REPLACE FUNCTION windlass.free_key(p_job bigint, p_snapshot pg_snapshot) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    u windlass.unique_key;
BEGIN
    SELECT * INTO u FROM windlass.unique_key WHERE job = p_job FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NOT EXISTS (SELECT FROM windlass.unique_key WHERE job = p_job);
    END IF;
    DELETE FROM windlass.unique_key WHERE key = u.key;
    IF u.rerun IS NOT NULL
       AND (u.touched IS NULL OR p_snapshot IS NOT NULL AND NOT pg_visible_in_snapshot(u.touched, p_snapshot))
      THEN
        PERFORM windlass.enqueue_one(
            u.rerun ->> 'task', u.rerun ->> 'payload', u.rerun ->> 'queue',
            (u.rerun ->> 'priority')::smallint,
            (u.rerun ->> 'delay')::float8, (u.rerun ->> 'run_at')::timestamptz, u.rerun ->> 'options', 'skip',
            NULL, p_known => true, p_judge => false);
    END IF;
    RETURN true;
END $$;

-- Frees the keys that settle had to leave, or that a job got back while it may have ended: see end_waiting.
-- Callers: the store's promote. May call: worker. Plan: free. Lock: the rows it frees, without waiting,
-- before they are counted: locked ones must not hold up the others; ACCESS SHARE on claim, as in finish.
CREATE OR REPLACE FUNCTION windlass.settle_rest(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    u      windlass.unsettled;
    v_done int := 0;
BEGIN
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    DELETE FROM windlass.unsettled
     WHERE job = ANY (ARRAY(SELECT x.job FROM windlass.unsettled x
                             WHERE NOT EXISTS (SELECT FROM windlass.unique_key k WHERE k.job = x.job)
                             LIMIT p_limit FOR UPDATE SKIP LOCKED));
    FOR u IN SELECT x.* FROM windlass.unsettled x JOIN windlass.unique_key k ON k.job = x.job
              WHERE NOT windlass.is_unfinished(x.job) LIMIT p_limit FOR UPDATE SKIP LOCKED LOOP
        IF windlass.free_key(u.job, u.snapshot) THEN
            DELETE FROM windlass.unsettled WHERE job = u.job;
            v_done := v_done + 1;
        END IF;
    END LOOP;
    RETURN v_done;
END $$;
