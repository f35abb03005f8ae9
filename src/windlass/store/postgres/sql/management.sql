-- What operators do: delete and retry jobs, set queues and tasks. Cancelling is in management_cancels.sql,
-- and how a job that waits is ended in management_waiting.sql.

-- ==== Deleting ====

-- Removes a job: 'deleted', 'requested' (it runs; its cancel was asked for) or 'not_found' [O5].
-- Callers: users, the store. May call: worker. Plan: indexed. Lock: the lane of a waiting job, until the
-- transaction ends; those of cancel_parent where it is a parent. It looks again as cancel does. A parent that
-- has ended goes at once, its parts with the next steps of expire.
CREATE OR REPLACE FUNCTION windlass.delete(job bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    p        record;
    v_answer text;
BEGIN
    LOOP
        v_answer := windlass.cancel_parent(delete.job);
        IF v_answer = 'finished' THEN
            PERFORM windlass.drop_parent(delete.job), windlass.drop_steps(ARRAY[delete.job]);
            RETURN 'deleted';
        ELSIF v_answer IS NOT NULL THEN
            RETURN v_answer;
        ELSIF windlass.end_waiting(job, 'deleted') THEN
            PERFORM windlass.drop_steps(ARRAY[delete.job]);
            RETURN 'deleted';
        END IF;
        DELETE FROM windlass.dead d WHERE d.id = delete.job;
        IF FOUND THEN
            PERFORM windlass.drop_steps(ARRAY[delete.job]);
            RETURN 'deleted';
        END IF;
        SELECT * INTO p FROM windlass.locate(delete.job);
        IF FOUND AND p.kind IS NOT NULL THEN
            -- It has ended, so no claim will ever look at this row again.
            DELETE FROM windlass.ready r WHERE r.lane = (p.ready).lane AND r.seq = (p.ready).seq;
            IF FOUND THEN
                PERFORM windlass.drop_steps(ARRAY[delete.job]);
                RETURN 'deleted';
            END IF;
            -- A rotation has just moved it: look again.
        ELSIF FOUND AND p.claim IS NOT NULL THEN
            PERFORM windlass.request_cancel(delete.job, p.worker);
            RETURN 'requested';
        ELSIF NOT windlass.is_unfinished(delete.job) THEN
            RETURN 'not_found';
        END IF;
    END LOOP;
END $$;

-- ==== Retrying ====

-- The operator's retry [O6]: 'retried', 'unchanged' or 'not_found'. Attempts start over, failures stay known.
-- Callers: users, the store. May call: worker. Plan: indexed. Lock: the row it moves; those of offer; those
-- of redrive_parts or reopen_parent_of first, where it is a parent or a part [P9].
CREATE OR REPLACE FUNCTION windlass.retry(job bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    d        windlass.dead;
    w        windlass.deferred;
    v_key    text;
    v_state  text;
    v_parent bigint;
    v_parts  int;
    v_holder bigint;
    v_held   boolean;
BEGIN
    SELECT p.state INTO v_state FROM windlass.parent p WHERE p.id = retry.job;
    IF v_state = 'dead' THEN
        SELECT r.parts, coalesce(r.holder, r.final) INTO v_parts, v_holder
          FROM windlass.redrive_parts(retry.job) AS r;
        RETURN CASE WHEN v_parts > 0 AND v_holder IS NULL THEN 'retried' ELSE 'unchanged' END;
    ELSIF v_state IS NOT NULL THEN
        RETURN 'unchanged';
    ELSIF EXISTS (SELECT FROM windlass.part t WHERE t.job = retry.job) THEN
        SELECT r.parent, r.held INTO v_parent, v_held FROM windlass.reopen_parent_of(retry.job) AS r;
        IF v_held THEN
            RETURN 'unchanged';
        END IF;
    END IF;
    SELECT * INTO d FROM windlass.dead x WHERE x.id = retry.job FOR UPDATE;
    IF FOUND THEN
        v_key := d.options ->> 'unique_key';
        IF v_key IS NOT NULL THEN
            INSERT INTO windlass.unique_key (key, job) VALUES (v_key, d.id) ON CONFLICT DO NOTHING;
            IF NOT FOUND THEN
                RETURN 'unchanged';
            END IF;
        END IF;
        PERFORM windlass.rejoin_groups(d.id);
        DELETE FROM windlass.dead x WHERE x.id = d.id;
        DELETE FROM windlass.ended_otherwise o WHERE o.job = d.id;
        DELETE FROM windlass.cancel_request q WHERE q.job = d.id;  -- one that came too late for its last run
        INSERT INTO windlass.failure (segment, job, at, attempt, type, message, traceback)
        SELECT windlass.pin_segment(), d.id, to_timestamp((e ->> 'at')::float8), (e ->> 'attempt')::smallint,
               e ->> 'type', e ->> 'message', e ->> 'traceback'
          FROM json_array_elements(d.errors) AS e
         WHERE NOT EXISTS (SELECT FROM windlass.failure f WHERE f.job = d.id);
        PERFORM windlass.offer_one(d.queue, d.priority, d.task, d.payload,
                                   windlass.without_deadline(windlass.unknown_since(d.options, false)), d.id,
                                   1::smallint, 0::smallint, d.enqueued_at);
        IF v_parent IS NOT NULL THEN
            PERFORM windlass.advance(v_parent);
        END IF;
        RETURN 'retried';
    END IF;
    -- A job that is to replace another waits for its end.
    DELETE FROM windlass.deferred x WHERE x.id = retry.job AND x.replaces IS NULL RETURNING * INTO w;
    IF FOUND THEN
        PERFORM windlass.offer_one(w.queue, w.priority, w.task, w.payload, w.options, w.id,
                                   CASE WHEN w.retrying THEN 1 ELSE w.attempt END::smallint, w.deaths,
                                             w.enqueued_at);
        RETURN 'retried';
    END IF;
    -- As in finish: the snapshot that says where the job is must be younger than any rotation that moved it.
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    IF EXISTS (SELECT FROM windlass.locate(retry.job))
       OR EXISTS (SELECT FROM windlass.held h WHERE h.id = retry.job)
       OR EXISTS (SELECT FROM windlass.deferred x WHERE x.id = retry.job) THEN
        RETURN 'unchanged';
    END IF;
    RETURN 'not_found';
END $$;

-- retry for many jobs at once: those it offered again. It takes only simple cases: dead, scheduled and
-- retrying jobs that are no part, do not replace another job and have no gate to pass, and dead ones that no
-- group waits for. The rest is left to retry.
-- Callers: the store. May call: worker. Plan: generic, pinned, nested. Lock: the rows it moves, without
-- waiting, so that two who do this never wait for each other; those of offer.
-- Each lane gets its jobs in one go, in the order given, with all its numbers drawn before the first row
-- [rule 3].
CREATE OR REPLACE FUNCTION windlass.retry_many(p_jobs bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_now     timestamptz := windlass.now();
    v_limited text[] := windlass.limited_tasks(NULL);
    v_segment smallint;
    v_plain   bigint[];
    v_ids     bigint[];
    v_dead    windlass.dead[];
    v_rows    windlass.held[];
BEGIN
    PERFORM windlass.require_read_committed();
    v_plain := ARRAY(SELECT u.id FROM unnest(p_jobs) AS u (id)
                      WHERE NOT EXISTS (SELECT FROM windlass.part t WHERE t.job = u.id OFFSET 0)
                        AND NOT EXISTS (SELECT FROM windlass.parent p WHERE p.id = u.id OFFSET 0));
    v_ids := ARRAY(SELECT d.id FROM windlass.dead d
                    WHERE d.id = ANY (v_plain) AND d.options ->> 'unique_key' IS NULL
                      AND (NOT windlass.may_be_gated(d.task, d.options::text, v_limited)
                           OR windlass.next_gate(d.id, d.queue, d.task, d.options) IS NULL)
                      AND NOT EXISTS (SELECT FROM windlass.group_job g
                                       WHERE g.job = d.id AND g.failed OFFSET 0)
                      AND NOT EXISTS (SELECT FROM windlass.after_edge e WHERE e.on_job = d.id OFFSET 0)
                      FOR UPDATE SKIP LOCKED);
    WITH gone AS (DELETE FROM windlass.dead d WHERE d.id = ANY (v_ids) RETURNING d.*)
    SELECT array_agg(ROW (gone.*)::windlass.dead) INTO v_dead FROM gone;
    IF v_dead IS NOT NULL THEN
        DELETE FROM windlass.ended_otherwise o WHERE o.job = ANY (v_ids);
        DELETE FROM windlass.cancel_request q WHERE q.job = ANY (v_ids);
        v_segment := windlass.pin_segment();
        INSERT INTO windlass.failure (segment, job, at, attempt, type, message, traceback)
        SELECT v_segment, d.id, to_timestamp((e ->> 'at')::float8), (e ->> 'attempt')::smallint,
               e ->> 'type', e ->> 'message', e ->> 'traceback'
          FROM unnest(v_dead) AS d CROSS JOIN LATERAL json_array_elements(d.errors) AS e
         WHERE NOT EXISTS (SELECT FROM windlass.failure f WHERE f.job = d.id OFFSET 0);
        v_rows := ARRAY(SELECT ROW (d.id, 0, v_now, d.enqueued_at, d.priority, 1, 0, d.queue, NULL, d.task,
                                    d.payload,
                                    windlass.without_deadline(windlass.unknown_since(d.options, false)), NULL,
                                    1, NULL)::windlass.held FROM unnest(v_dead) AS d);
    END IF;
    v_ids := ARRAY(SELECT w.id FROM windlass.deferred w
                    WHERE w.id = ANY (v_plain) AND w.replaces IS NULL
                      AND (NOT windlass.may_be_gated(w.task, w.options::text, v_limited)
                           OR windlass.next_gate(w.id, w.queue, w.task, w.options) IS NULL)
                      FOR UPDATE SKIP LOCKED);
    WITH gone AS (DELETE FROM windlass.deferred w WHERE w.id = ANY (v_ids) RETURNING w.*)
    SELECT v_rows || array_agg(ROW (w.id, 0, v_now, w.enqueued_at, w.priority,
                                    CASE WHEN w.retrying THEN 1 ELSE w.attempt END,
                                    w.deaths, w.queue, NULL, w.task, w.payload, w.options, NULL,
                                    1, NULL)::windlass.held)
      INTO v_rows FROM gone AS w;
    IF v_rows IS NULL THEN
        RETURN '{}';
    END IF;
    PERFORM windlass.offer_held(array_agg(u ORDER BY array_position(p_jobs, u.id))) FROM unnest(v_rows) AS u;
    RETURN ARRAY(SELECT u.id FROM unnest(v_rows) AS u);
END $$;

-- ==== Settings ====

-- Declares a queue, or changes some of its settings; unnamed ones stay.
-- Callers: users, the store. May call: worker. Plan: free. Lock: the row, then those of set_rate. An unknown
-- or invalid setting is refused, and nothing is changed [K1].
CREATE OR REPLACE FUNCTION windlass.set_queue(
    p_name text, p_changes jsonb DEFAULT '{}') RETURNS windlass.queue
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    q      windlass.queue;
    v_old  windlass.queue;
    v_kept float8 := (SELECT m.retention FROM windlass.meta m);
BEGIN
    PERFORM windlass.check_settings('queue', p_name, p_changes);
    INSERT INTO windlass.queue (name) VALUES (p_name) ON CONFLICT DO NOTHING;
    SELECT * INTO q FROM windlass.queue WHERE name = p_name FOR NO KEY UPDATE;
    v_old := q;
    q := jsonb_populate_record(q, p_changes);
    IF q.rate_min > q.rate_max THEN
        RAISE EXCEPTION 'rate_min of queue % cannot be above its rate_max, %', p_name, q.rate_max
            USING ERRCODE = 'WL005', HINT = 'Set both at once, or rate_max first.';
    END IF;
    -- The logs go with their segments: no queue can keep a job for longer [K6].
    IF q.retention IS DISTINCT FROM v_old.retention AND q.retention > v_kept THEN
        RAISE EXCEPTION 'retention of queue % cannot be above that of the store, % s', p_name, round(v_kept)
            USING ERRCODE = 'WL005',
                  HINT = 'Raise that first with WINDLASS_RETENTION, or set a shorter one';
    END IF;
    -- Those that were named, which are settings: that was checked.
    IF p_changes <> '{}' THEN
        EXECUTE (SELECT 'UPDATE windlass.queue SET ' || string_agg(format('%1$I = ($1).%1$I', k), ', ')
                        || ' WHERE name = ($1).name'
                   FROM jsonb_object_keys(p_changes) AS k) USING q;
    END IF;
    -- Hosts give their workers new slots at once [K2].
    IF q IS DISTINCT FROM v_old THEN
        PERFORM windlass.wake('@');
    END IF;
    -- Without a limit open claims are not recorded: a later limit counts anew, and drops what a claim that
    -- still saw the old limit has recorded since [F3].
    DELETE FROM windlass.limited_queue x
     WHERE x.queue = p_name AND (q.concurrency IS NULL OR v_old.concurrency IS NULL);
    -- Claimers that found it paused ask again when notified, or after some seconds [K2].
    IF v_old.paused AND NOT q.paused THEN
        PERFORM windlass.wake(p_name), windlass.mark_gates_changed(
            windlass.next_waiting_lists('shut:' || p_name, 'shut:' || p_name || '!', '', 1000), true);
    END IF;
    -- Its jobs give up their slots to others [F3].
    IF q.paused AND NOT v_old.paused THEN
        PERFORM windlass.mark_gates_changed(windlass.next_waiting_lists('key:', 'key;', '', 1000)
            || windlass.next_waiting_lists('task:', 'task;', '', 1000), true);
    END IF;
    -- Where a governor begins: as Governor.first in windlass.core says [F2].
    IF q.governor AND NOT v_old.governor THEN
        PERFORM windlass.set_rate(p_name, greatest(q.rate_min, q.rate_max / 20));
    ELSIF v_old.governor AND NOT q.governor THEN
        PERFORM windlass.set_rate(p_name, NULL);
        DELETE FROM windlass.governor g WHERE g.queue = p_name;
    END IF;
    RETURN q;
END $$;

-- Changes some settings of a task; NULL goes back to what the code says, and unnamed ones stay [P6].
-- Callers: users, the store. May call: worker. Plan: free. Lock: the row. An unknown or invalid setting is
-- refused, and nothing is changed.
CREATE OR REPLACE FUNCTION windlass.set_task(p_name text, p_changes jsonb) RETURNS windlass.task_setting
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    t windlass.task_setting;
BEGIN
    PERFORM windlass.check_settings('task', p_name, p_changes);
    INSERT INTO windlass.task_setting (name) VALUES (p_name) ON CONFLICT DO NOTHING;
    SELECT * INTO t FROM windlass.task_setting x WHERE x.name = p_name FOR UPDATE;
    t := jsonb_populate_record(t, p_changes);
    -- Those that were named, which are settings: that was checked.
    IF jsonb_strip_nulls(to_jsonb(t) - 'name') = '{}' THEN
        DELETE FROM windlass.task_setting x WHERE x.name = p_name;
    ELSIF p_changes <> '{}' THEN
        EXECUTE (SELECT 'UPDATE windlass.task_setting SET '
                        || string_agg(format('%1$I = ($1).%1$I', k), ', ') || ' WHERE name = ($1).name'
                   FROM jsonb_object_keys(p_changes) AS k) USING t;
    END IF;
    -- Running jobs count under a new limit, and a higher limit may make room [F3]. They are counted after
    -- this has committed: see count_running.
    IF p_changes ? 'concurrency' AND t.concurrency IS NOT NULL THEN
        INSERT INTO windlass.uncounted_task (task) VALUES (p_name);
    END IF;
    IF p_changes ? 'concurrency' THEN
        PERFORM windlass.mark_gates_changed(ARRAY['task:' || p_name], true);
    END IF;
    IF p_changes ? 'key_concurrency' THEN
        -- To find the keys whose waiting lists have jobs of this task costs more than to look at all of them.
        PERFORM windlass.mark_gates_changed(windlass.next_waiting_lists('key:', 'key;', '', 1000), true);
    END IF;
    RETURN t;
END $$;

-- Refuses settings of a 'queue' [K1], a 'task' [P6] or a 'budget' [F1] that are unknown or invalid.
-- Callers: set_queue, set_task, declare_budget, set_budget. May call: worker. Plan: the caller's. Lock: none.
-- The rules take the place of the comment when the functions are loaded: see setting_rules.py.
CREATE OR REPLACE FUNCTION windlass.check_settings(
    p_what text, p_name text, p_changes jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_wrong text;
    v_known text;
BEGIN
    PERFORM windlass.check_name(p_what, p_name);
    WITH rule (what, name, type, nullable, whole, zero, most, choices, allowed) AS (
        VALUES /* rules of windlass.store.fields */
    )
    SELECT (SELECT c.key
              FROM jsonb_each(p_changes) AS c LEFT JOIN rule r ON r.what = p_what AND r.name = c.key
             WHERE CASE WHEN r.name IS NULL THEN true
                        WHEN jsonb_typeof(c.value) = 'null' THEN NOT r.nullable
                        WHEN jsonb_typeof(c.value) <> r.type THEN true
                        WHEN r.type = 'boolean' THEN false
                        WHEN r.choices IS NOT NULL THEN c.value #>> '{}' <> ALL (r.choices)
                        WHEN r.type = 'string' THEN length(c.value #>> '{}') NOT BETWEEN 1 AND r.most
                        WHEN c.value::numeric < 0 OR c.value::numeric = 0 AND NOT r.zero THEN true
                        WHEN c.value::numeric > r.most THEN true
                        ELSE r.whole AND c.value::numeric % 1 <> 0 END
             LIMIT 1),
           (SELECT string_agg(r.name || ' (' || r.allowed || ')', ', ' ORDER BY r.name)
              FROM rule r WHERE r.what = p_what)
      INTO v_wrong, v_known;
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION '% % cannot have % set to %', p_what, p_name, v_wrong, p_changes -> v_wrong
            USING ERRCODE = 'WL005', HINT = 'Settings are ' || v_known || '.';
    END IF;
END $$;

-- ==== Reading queues ====

-- What all rows of queues come to: another one after any of them was changed, added or removed. The epoch is
-- part of it, since a restored database gives out the same xids again [S3].
-- Callers: the store's queues and cluster_view. May call: worker, reader. Plan: free. Lock: none. STABLE: as
-- of the moment of the statement that reads the rows.
CREATE OR REPLACE FUNCTION windlass.queues_stamp() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT concat_ws(':', (SELECT m.epoch FROM windlass.meta m WHERE m.single), count(*),
                     sum(hashtextextended(q.xmin::text, 0)))
      FROM windlass.queue q
$$;

-- Whether what is read of a queue changes while its row stays as it is: it cools down, has a governor, or a
-- depth to keep below.
-- Callers: the store's queues and cluster_view. May call: worker, reader. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.changes_itself(q windlass.queue) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT q.cool_until IS NOT NULL OR q.governor OR q.max_depth IS NOT NULL
$$;

-- ==== Statements that the store sends ====

-- :set_queue
-- A queue with its settings changed.
-- Callers: PostgresStore.set_queue. Lock: that of set_queue.
SELECT q.*, windlass.cooldown_left(q) AS cooling, windlass.flow_of(q) AS flow
  FROM windlass.set_queue($1, $2) AS q

-- :queues
-- Every queue, or where their stamp is still $1 those whose readings change by themselves; one row without a
-- name if there are none to send.
-- Callers: the store's queues. Lock: none.
SELECT t.stamp, q.*
  FROM windlass.queues_stamp() AS t (stamp)
  LEFT JOIN LATERAL (SELECT x.*, windlass.cooldown_left(x) AS cooling, windlass.flow_of(x) AS flow
                       FROM windlass.queue x
                      WHERE t.stamp IS DISTINCT FROM $1 OR windlass.changes_itself(x)) AS q ON true
 ORDER BY q.name COLLATE "C"

-- :tasks
-- Every task that has settings.
-- Callers: the store's tasks. Lock: none.
SELECT * FROM windlass.task_setting ORDER BY name COLLATE "C"
