-- Gates: concurrency and ordering keys, limits of tasks, budgets. Which gate is next for a job, how much room
-- there is behind one, passes, and the ring of fair keys. Letting jobs through is in limits_admit.sql.

-- ==== The way of a job ====

-- The first gate that a new job must pass; NULL: none. p_limited: whether a setting limits its task.
-- Callers: enqueue_aside, enqueue_new. May call: worker. Plan: the caller's. Lock: none.
-- The same as next_gate for a job without a pass, but it reads no table.
CREATE OR REPLACE FUNCTION windlass.first_gate(
    p_queue text, p_task text, p_options json, p_limited boolean) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_options ->> 'ordering_key' IS NOT NULL
                THEN 'order:' || p_queue || '/' || (p_options ->> 'ordering_key')
                WHEN p_options ->> 'concurrency_key' IS NOT NULL
                THEN 'key:' || (p_options ->> 'concurrency_key')
                WHEN p_limited OR p_options ->> 'task_limit' IS NOT NULL THEN 'task:' || p_task END
$$;

-- The first gate that a job must pass and has no pass for; NULL: it may go to its lane [F3] [F6]. p_job NULL:
-- the job is new.
-- Callers: place_changed, enqueue_one, serve_after, offer_deferred, offer_one, offer_part_jobs, retry_many,
-- admit_gate, admit_onward, admit_unserved. May call: worker. Plan: the caller's. Lock: none. gates_of in
-- windlass.core.flow.gates has the same order.
CREATE OR REPLACE FUNCTION windlass.next_gate(
    p_job bigint, p_queue text, p_task text, p_options json) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_gate text;
BEGIN
    v_gate := 'order:' || p_queue || '/' || (p_options ->> 'ordering_key');
    IF v_gate IS NOT NULL AND NOT EXISTS (SELECT FROM windlass.pass p
                                           WHERE p.job = p_job AND p.gate || '' = v_gate) THEN
        RETURN v_gate;
    END IF;
    v_gate := 'key:' || (p_options ->> 'concurrency_key');
    IF v_gate IS NOT NULL AND NOT EXISTS (SELECT FROM windlass.pass p
                                           WHERE p.job = p_job AND p.gate || '' = v_gate) THEN
        RETURN v_gate;
    END IF;
    IF p_options ->> 'task_limit' IS NULL
       AND NOT EXISTS (SELECT FROM windlass.task_setting t
                        WHERE t.name = p_task AND t.concurrency IS NOT NULL) THEN
        RETURN NULL;
    END IF;
    v_gate := 'task:' || p_task;
    RETURN CASE WHEN NOT EXISTS (SELECT FROM windlass.pass p WHERE p.job = p_job AND p.gate || '' = v_gate)
                THEN v_gate END;
END $$;

-- Whether a job may have to wait for a gate or for the turn of its fair key: a cheap test before next_gate
-- decides. p_limited: tasks that are limited by a setting.
-- Callers: enqueue_many, enqueue_new, offer_deferred, retry_many. May call: worker. Plan: the caller's.
-- Lock: none.
CREATE OR REPLACE FUNCTION windlass.may_be_gated(
    p_task text, p_options text, p_limited text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_task = ANY (p_limited)
        OR coalesce(p_options ~ '"(ordering_key|concurrency_key|task_limit|fair_key)"', false)
$$;

-- Which of some tasks (NULL: of all) are limited by a setting [F3].
-- Callers: enqueue_many, enqueue_new, offer_deferred, claim_gated, claim_recheck, retry_many, break_runs.
-- May call: worker. Plan: the caller's.
-- Lock: none.
-- The table is small.
CREATE OR REPLACE FUNCTION windlass.limited_tasks(p_tasks text[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    -- Mostly there is none. The query below is planned again for each call, which takes about as long as to
    -- offer a job.
    IF NOT EXISTS (SELECT FROM windlass.task_setting t WHERE t.concurrency IS NOT NULL) THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(SELECT t.name FROM windlass.task_setting t
                  WHERE t.concurrency IS NOT NULL AND (p_tasks IS NULL OR t.name = ANY (p_tasks)));
END $$;

-- The gates that some jobs wait at or have passed.
-- Callers: the store, before and after it manages them. May call: worker. Plan: pinned. Lock: none.
CREATE OR REPLACE FUNCTION windlass.gates_of_jobs(p_jobs bigint[]) RETURNS TABLE (gate text)
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT p.gate FROM unnest(p_jobs) AS j (id)
     CROSS JOIN LATERAL (SELECT x.gate FROM windlass.pass x WHERE x.job = j.id OFFSET 0) AS p
     UNION
    SELECT h.gate FROM unnest(p_jobs) AS j (id)
     CROSS JOIN LATERAL (SELECT x.gate FROM windlass.held x WHERE x.id = j.id OFFSET 0) AS h
     WHERE h.gate IS NOT NULL
$$;

-- Gives a job in the waiting list of an ordering key a new turn just before its transaction commits. So of
-- two jobs the one committed first goes first, however long the other's transaction took [F6]. Jobs of one
-- transaction keep their order.
-- Callers: the triggers in_order and in_order_again of held, at commit. May call: worker. Plan: pinned. Lock:
-- none beyond the row it writes, which nobody else sees yet.
-- SET CONSTRAINTS ALL IMMEDIATE, which some frameworks send, fires it too early. So its own update fires it
-- again, deferred, and it draws a new turn unless the same statement has drawn this one: the last draw is at
-- COMMIT. windlass.drawing: that statement, and the first number it has drawn. windlass.keeps_turn: the jobs
-- that are inserted now keep the turns that they have. It is on where a call of the store's own inserts them
-- right before it commits (enqueue_aside), and where a job that has had its turn comes back (put_back).
CREATE OR REPLACE FUNCTION windlass.draw_turn() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_drawing text := date_part('epoch', statement_timestamp())::text;
BEGIN
    IF split_part(current_setting('windlass.drawing', true), '/', 1) IS DISTINCT FROM v_drawing THEN
        PERFORM set_config('windlass.drawing', v_drawing || '/' || nextval('windlass.held_turn'), true);
    END IF;
    IF NEW.turn < split_part(current_setting('windlass.drawing'), '/', 2)::bigint THEN
        SET CONSTRAINTS windlass.in_order_again DEFERRED;
        UPDATE windlass.held h SET turn = nextval('windlass.held_turn')
         WHERE h.id = NEW.id AND h.gate = NEW.gate;
    END IF;
    RETURN NULL;
END $$;

-- ==== Room behind a gate ====

-- Takes the lock of a gate, under which jobs are let through. False: it was held for longer than p_wait ms; 0
-- does not wait.
-- Callers: admit_through, claim_gated, claim_called_back. May call: worker. Plan: the caller's. Lock:
-- advisory, (oid of the held table, hash of the gate), until the transaction ends.
-- A producer only tries it, and in a transaction of the store's own: see enqueue_straight. Nobody who holds
-- it waits for a lane, a worker or a parent.
CREATE OR REPLACE FUNCTION windlass.gate_lock(p_gate text, p_wait int) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_space  int := ('windlass.held'::regclass::oid::bigint - 2147483648)::int;
    v_before text := current_setting('lock_timeout');
BEGIN
    IF pg_try_advisory_xact_lock(v_space, hashtext(p_gate)) THEN
        RETURN true;
    ELSIF p_wait > 0 THEN
        PERFORM set_config('lock_timeout', p_wait || 'ms', true);
        PERFORM pg_advisory_xact_lock(v_space, hashtext(p_gate));
        PERFORM set_config('lock_timeout', v_before, true);
        RETURN true;
    END IF;
    RETURN false;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

-- How many jobs may be beyond a gate at a time, as a job in its waiting list says; NULL: no limit any more.
-- Settings of the task override what the job says [F3].
-- Callers: admit_gate, claim_called_back. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.gate_limit(p_kind text, p_task text, p_options json) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    t windlass.task_setting;
BEGIN
    IF p_kind <> 'order' THEN
        SELECT * INTO t FROM windlass.task_setting x WHERE x.name = p_task;
    END IF;
    RETURN windlass.limit_of(p_kind, p_options, t.concurrency, t.key_concurrency);
END $$;

-- The same, where the settings of the job's task are at hand.
-- Callers: gate_limit, admit_lists, enqueue_straight, add_followers, has_limit. May call: worker. Plan: the
-- caller's. Lock: none. An expression that becomes part of the query that asks.
CREATE OR REPLACE FUNCTION windlass.limit_of(
    p_kind text, p_options json, p_concurrency bigint, p_key_concurrency bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE p_kind WHEN 'order' THEN 1
                       WHEN 'key' THEN coalesce(p_key_concurrency, (p_options ->> 'key_limit')::bigint, 1)
                       WHEN 'task' THEN coalesce(p_concurrency, (p_options ->> 'task_limit')::bigint) END
$$;

-- Seconds until the bucket behind a gate can let out the first job of its waiting list; infinite where it
-- never can, NULL where the list is empty [F1].
-- Callers: sweep_gates. May call: worker. Plan: the caller's. Lock: none.
-- Tokens still reserved for jobs let out before come on top; for more than the bucket can hold see
-- Bucket.wait in windlass.core. While one job is out as the probe of a half-open breaker, no other is let out
-- [F7].
CREATE OR REPLACE FUNCTION windlass.gate_wait(p_gate text) RETURNS float8
LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN p.n = 0 THEN windlass.bucket_wait(g.budget, g.key, h.need, NULL, 0)
                ELSE least(CASE WHEN windlass.breaker_state(b, windlass.unix_time()) <> 'closed'
                                THEN 'Infinity'
                                ELSE windlass.bucket_wait(g.budget, g.key, h.need, NULL, p.n) END,
                           greatest(windlass.bucket_wait(g.budget, g.key, h.need, NULL, 0), p.kept)) END
      FROM (SELECT x.need FROM windlass.held x WHERE x.gate = p_gate ORDER BY x.turn LIMIT 1) AS h
     CROSS JOIN (SELECT substr(p_gate, 8, strpos(p_gate, '/') - 8),
                        substr(p_gate, strpos(p_gate, '/') + 1)) AS g (budget, key)
     CROSS JOIN (SELECT windlass.promised_tokens(p_gate),
                        (SELECT date_part('epoch', min(x.at) + interval ':bucket.PROMISED_FOR s'
                                                   - windlass.now())
                           FROM windlass.pass x
                          WHERE x.gate = p_gate
                            AND x.at BETWEEN windlass.now() - interval ':bucket.PROMISED_FOR s'
                                AND windlass.now() + interval ':clock.SLIP s')) AS p (n, kept)
      LEFT JOIN windlass.budget b ON b.name = g.budget
$$;

-- The tokens reserved for jobs that were just let out of a budget's waiting list and are not claimed yet,
-- except for some jobs [F1]. A job that now waits elsewhere, or is not claimed (its queue is paused, say),
-- keeps its pass, but its tokens are no longer reserved: jobs could wait for each other, or for ever.
-- Callers: admit_gate, gate_wait, claim_tokens. May call: worker. Plan: pinned. Lock: none.
CREATE OR REPLACE FUNCTION windlass.promised_tokens(p_gate text, p_but bigint[] DEFAULT '{}') RETURNS int
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT least(coalesce(sum(p.need), 0), :budgets.MOST_TOKENS) FROM windlass.pass p
             WHERE p.gate = p_gate AND p.job <> ALL (p_but)
               AND p.at BETWEEN windlass.now() - interval ':bucket.PROMISED_FOR s'
                            AND windlass.now() + interval ':clock.SLIP s'
               AND NOT EXISTS (SELECT FROM windlass.held h WHERE h.id = p.job OFFSET 0));
END $$;

-- Gives running jobs of a task a pass of its new limit, so that they count [F3]; except those of p_but, a
-- claim that is being judged.
-- Callers: admit_gate, admit_lists, claim_gated. May call: worker. Plan: the caller's. Lock: ACCESS SHARE on
-- claim, as in finish; the caller holds the gate's, so that no job is let through before. It is done by the
-- first to look at the gate after the limit was committed: only then is every claim either visible here, or
-- sees the limit itself after its commit (see claim_recheck).
CREATE OR REPLACE FUNCTION windlass.count_running(p_task text, p_but bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM windlass.uncounted_task u WHERE u.task = p_task) THEN
        RETURN;
    END IF;
    DELETE FROM windlass.uncounted_task u WHERE u.task = p_task;
    -- Jobs of a run bring its number along, which may be older than any pass of this gate.
    DELETE FROM windlass.list_start s WHERE s.gate = 'task:' || p_task;
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    -- A job that is counted while its claim puts it aside would wait for its own slot.
    DELETE FROM windlass.pass p
     WHERE p.gate = 'task:' || p_task AND EXISTS (SELECT FROM windlass.held h
                                                   WHERE h.id = p.job
                                                     AND (h.gate = p.gate OR h.gate LIKE 'key:%'
                                                          OR h.gate LIKE 'order:%') OFFSET 0);
    INSERT INTO windlass.pass (gate, job, need, turn, enqueued_at, at, run)
    SELECT 'task:' || p_task, windlass.job_of(h.ready), 1, nextval('windlass.held_turn'),
           windlass.enqueued_of(h.ready), windlass.now(), r.run
      FROM windlass.worker_life w CROSS JOIN LATERAL windlass.holdings(w.id) AS h
      LEFT JOIN LATERAL (SELECT p.run FROM windlass.pass p
                          WHERE p.job = windlass.job_of(h.ready) AND p.run IS NOT NULL LIMIT 1) AS r ON true
     WHERE NOT w.settled AND (h.ready).task = p_task AND h.claim IS DISTINCT FROM p_but
    ON CONFLICT DO NOTHING;
END $$;

-- ==== Passes ====

-- Takes back passes of jobs: 'all', where the jobs have ended; all but that of their ordering key where an
-- 'attempt' has, so that a retry keeps its place [F6]; those of concurrency keys and tasks where they wait
-- for tokens and need no 'slots' meanwhile [F3]. Returns the gates at which somebody waits for the room.
-- Callers: change, place_changed, settle, finish, finish_others, hand_back, split, take_unique_key,
-- claim_aside, sweep_passes, admit_gate, hold_unserved. May call: worker. Plan: pinned. Lock: the rows it
-- removes, and those of their ordering keys' marks, which nobody else writes while there is a pass. p_call:
-- the caller does not admit the next jobs, so the coordinator is notified where some wait; NULL: the caller
-- admits them in this transaction, and notes what is left. p_flush: it is a flush, which commits at once.
-- Then a gate is left out where others are left of each run: their end frees its place. One of these is
-- locked for that, so that of two who end the last of a run at once the second sees what the first has done.
CREATE OR REPLACE FUNCTION windlass.drop_passes(
    p_jobs bigint[], p_which text, p_call boolean, p_flush boolean DEFAULT false) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_gates text[];
    v_runs  bigint[];
BEGIN
    IF NOT EXISTS (SELECT FROM windlass.pass p WHERE p.job = ANY (p_jobs)) THEN
        RETURN '{}';
    END IF;
    WITH gone AS (DELETE FROM windlass.pass p
                   WHERE p.job = ANY (p_jobs)
                     AND CASE p_which WHEN 'all' THEN true WHEN 'attempt' THEN p.gate NOT LIKE 'order:%'
                                      ELSE p.gate LIKE 'key:%' OR p.gate LIKE 'task:%' END
                  RETURNING p.gate, p.run)
    SELECT array_agg(g.gate), array_agg(g.run) INTO v_gates, v_runs
      FROM (SELECT DISTINCT gate, run FROM gone) AS g;
    PERFORM windlass.move_marks(v_gates, 0);
    IF p_flush THEN
        v_gates := ARRAY(SELECT u.gate FROM unnest(v_gates, v_runs) AS u (gate, run)
                           LEFT JOIN LATERAL (SELECT p.job FROM windlass.pass p
                                               WHERE p.gate = u.gate AND p.run = u.run LIMIT 1
                                                 FOR KEY SHARE SKIP LOCKED) AS other ON true
                          WHERE other.job IS NULL);
    END IF;
    -- Who joins a list from here on finds that a pass is leaving: see gate_places. An older snapshot cannot
    -- tell who has joined before.
    v_gates := ARRAY(SELECT DISTINCT g FROM unnest(v_gates) AS g
                      WHERE current_setting('transaction_isolation') <> 'read committed'
                         OR EXISTS (SELECT FROM windlass.list_from(g) AS s CROSS JOIN windlass.held h
                                     WHERE h.gate = g AND h.turn >= s.turn OFFSET 0));
    IF v_gates <> '{}' AND p_call IS NOT NULL THEN
        PERFORM windlass.mark_gates_changed(v_gates, p_call);
    END IF;
    RETURN v_gates;
END $$;

-- Drops passes of jobs that ended without their passes being dropped, so that no gate stays shut for ever.
-- Looks at up to p_limit passes in turn, and returns how many jobs had ended.
-- Callers: the store's promote, now and then. May call: worker. Plan: pinned, ordered. Lock: the row that
-- says how far it has come, without waiting; ACCESS SHARE on claim, as in finish; those of drop_passes, tried
-- first: a job with a locked pass is left for the next round.
CREATE OR REPLACE FUNCTION windlass.sweep_passes(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_from bigint;
    v_jobs bigint[];
    v_gone bigint[];
    v_free bigint[];
BEGIN
    PERFORM windlass.require_read_committed();
    SELECT k.job INTO v_from FROM windlass.gate_look k FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    v_jobs := ARRAY(SELECT p.job FROM windlass.pass p WHERE p.job > v_from ORDER BY p.job LIMIT p_limit);
    v_gone := ARRAY(SELECT DISTINCT j FROM unnest(v_jobs) AS j WHERE NOT windlass.is_unfinished(j));
    v_free := ARRAY(SELECT p.job FROM windlass.pass p WHERE p.job = ANY (v_gone) FOR UPDATE SKIP LOCKED);
    v_gone := ARRAY(SELECT g FROM unnest(v_gone) AS g
                     WHERE (SELECT count(*) FROM unnest(v_free) AS f WHERE f = g)
                           = (SELECT count(*) FROM windlass.pass p WHERE p.job = g));
    PERFORM windlass.drop_passes(v_gone, 'all', true);
    UPDATE windlass.gate_look k SET job = CASE WHEN cardinality(v_jobs) < p_limit THEN 0
                                               ELSE v_jobs[p_limit] END
     WHERE v_from > 0 OR v_jobs <> '{}';
    RETURN cardinality(v_gone);
END $$;

-- ==== Queues that nobody serves ====

-- The queues that nobody serves at the moment: paused, or named by no worker; and the places (see place_of)
-- in other queues whose jobs no worker there is able to run. A worker that names no queue may serve any.
-- Where there is no worker at all, nothing counts as unserved [F3].
-- Callers: admit_gate, admit_lists, admit_unserved, enqueue_straight. May call: worker.
-- Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.unserved_places() RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_served text[];
    v_any    boolean;
BEGIN
    SELECT array_agg(DISTINCT q), bool_or(w.queues = '{}') INTO v_served, v_any
      FROM windlass.worker_life l JOIN windlass.worker w ON w.id = l.id
      LEFT JOIN LATERAL unnest(w.queues) AS q ON true
     WHERE l.alive;
    RETURN ARRAY(SELECT q.name FROM windlass.queue q WHERE q.paused OR NOT v_any
                    AND q.name <> ALL (v_served)
                  UNION ALL
                 SELECT DISTINCT windlass.place_of(n.queue, n.abilities)
                   FROM windlass.lane n JOIN windlass.queue q ON q.name = n.queue
                  WHERE n.abilities <> ''
                    AND (q.paused OR v_any IS NOT NULL AND NOT EXISTS (
                            SELECT FROM windlass.worker_life l JOIN windlass.worker w ON w.id = l.id
                             WHERE l.alive AND (w.queues = '{}' OR n.queue = ANY (w.queues))
                               AND string_to_array(n.abilities, ',') <@ w.abilities)));
END $$;

-- Takes jobs that hold a pass of the gate out of the lanes of queues that nobody serves, so that others get
-- their slots; returns how many [F3]. They wait in the list of their queue until it is served: see
-- admit_unserved.
-- Callers: admit_gate, where the gate is full. May call: worker. Plan: pinned. Lock: the gate's, held by the
-- caller; the lanes and the rows it moves, without waiting; ACCESS SHARE on claim, as in finish.
-- In the log their attempts end as `held`, claimed ahead by worker 0 [rule 13].
CREATE OR REPLACE FUNCTION windlass.hold_unserved(p_gate text, p_places text[]) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    j      record;
    v_done int := 0;
BEGIN
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    FOR j IN SELECT p.job, l.ready, n.queue, n.priority,
                    windlass.place_of(n.queue, n.abilities) AS place
               FROM (SELECT x.job FROM windlass.pass x WHERE x.gate = p_gate LIMIT 100) AS p
              CROSS JOIN LATERAL windlass.locate(p.job) AS l
               JOIN windlass.lane n ON n.id = (l.ready).lane
              WHERE l.claim IS NULL AND windlass.place_of(n.queue, n.abilities) = ANY (p_places) LOOP
        CONTINUE WHEN NOT pg_try_advisory_xact_lock(windlass.lock_space(), (j.ready).lane);
        CONTINUE WHEN windlass.take_ahead((j.ready).lane, ARRAY[(j.ready).seq], 'held') = '{}';
        PERFORM windlass.drop_passes(ARRAY[j.job], 'slots', false);
        INSERT INTO windlass.held (id, since, enqueued_at, queue, priority, attempt, deaths, gate, task,
                                   payload, options)
        VALUES (j.job, (j.ready).offered_at, windlass.enqueued_of(j.ready), j.queue, j.priority,
                (j.ready).attempt,
                (j.ready).deaths, 'shut:' || j.place, (j.ready).task, (j.ready).payload, (j.ready).options);
        v_done := v_done + 1;
    END LOOP;
    -- Jobs that wait for the turn of their fair key have the pass, too.
    FOR j IN SELECT h.id, windlass.place_of(h.queue, windlass.abilities_of(h.options)) AS place
               FROM windlass.pass p JOIN windlass.held h ON h.id = p.job
              WHERE p.gate = p_gate AND h.gate IS NULL
                AND windlass.place_of(h.queue, windlass.abilities_of(h.options)) = ANY (p_places) LIMIT 100
                FOR UPDATE OF h SKIP LOCKED LOOP
        PERFORM windlass.drop_passes(ARRAY[j.id], 'slots', false);
        UPDATE windlass.held h SET gate = 'shut:' || j.place, fair_key = NULL WHERE h.id = j.id;
        v_done := v_done + 1;
    END LOOP;
    RETURN v_done;
END $$;

-- ==== Gates where something has changed ====

-- Notes that something has changed at some gates, so that no admission is missed, and notifies the
-- coordinator where one may be due. p_call NULL: only where no job waited before. Jobs that join a list with
-- the note take their turns after it, or p_turn is the lowest of them: see list_from.
-- Callers: change, place_changed, enqueue_one, enqueue_aside, enqueue_new, offer_one, offer_part_jobs,
-- claim_aside (before they put jobs aside), drop_passes, put_back, finish, admit_freed, admit_gate,
-- admit_unserved, set_task, set_queue, register, budget_change, take_unique_key, end_waiting, replace_step.
-- May call: worker. Plan: pinned. Lock: none. It only adds rows.
CREATE OR REPLACE FUNCTION windlass.mark_gates_changed(
    p_gates text[], p_call boolean DEFAULT NULL, p_turn bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    -- Without a look at what others have noted: a needless call does no harm, and producers whose
    -- transactions are SERIALIZABLE would fail each other.
    IF coalesce(p_call, EXISTS (SELECT FROM unnest(p_gates) AS g
                                 WHERE NOT EXISTS (SELECT FROM windlass.held h
                                                    WHERE h.gate = g AND h.turn >= coalesce((
                                                        SELECT s.turn FROM windlass.list_start s
                                                         WHERE s.gate = g ORDER BY s.no DESC LIMIT 1), 0)
                                                   OFFSET 0))) THEN
        PERFORM windlass.wake('+');
    END IF;
    INSERT INTO windlass.changed_gate (gate, turn)
    SELECT x.gate, coalesce(p_turn, nextval('windlass.held_turn'))
      FROM (SELECT DISTINCT g FROM unnest(p_gates) AS g WHERE g IS NOT NULL) AS x (gate);
END $$;

-- ==== Where lists begin ====

-- The turn from which on a gate's waiting list is to be read: nobody who is visible waits below it.
-- Callers: add_followers, admit_gate, admit_lists, admit_through, claim_gated, drop_passes,
-- enqueue_straight. May call: worker. Plan: the caller's. Lock: none. It is inlined into the statement that
-- reads the list, so that both see one moment.
-- Whoever joins at a lower turn leaves a note of it in the same transaction: one that commits late, and one
-- that goes back to its place. A note is removed together with a new start, if it is below the old one.
-- Gate and transaction are compared as one, here and wherever notes of a gate are read: while there are
-- mostly none, the index by transaction looks as good to the planner, and would read those of all gates
-- [rule 8].
CREATE OR REPLACE FUNCTION windlass.list_from(p_gate text) RETURNS TABLE (turn bigint)
LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT least(s.turn, (SELECT min(c.turn) FROM windlass.changed_gate c
                                            WHERE c.gate = p_gate AND (c.gate, c.xid) >= (p_gate, s.seen)))
                       FROM windlass.list_start s WHERE s.gate = p_gate ORDER BY s.no DESC LIMIT 1), 0)
$$;

-- Removes what was noted of some gates, and says how far that was seen; and of gates where somebody joined
-- below the start, the lowest turn noted.
-- Callers: admit_lists, admit_gate, before they read the lists. May call: worker. Plan: generic, pinned,
-- nested. Lock: the gates', held by the caller, so that nobody else removes notes.
CREATE OR REPLACE FUNCTION windlass.take_notes(
    p_gates text[], OUT seen xid8, OUT gates text[], OUT turns bigint[])
LANGUAGE plpgsql AS $$
BEGIN
    WITH noted AS MATERIALIZED (
        SELECT n.tid, coalesce(l.turn, 0) AS start
          FROM unnest(p_gates) AS u (gate)
          LEFT JOIN LATERAL (SELECT s.seen, s.turn FROM windlass.list_start s
                              WHERE s.gate = u.gate ORDER BY s.no DESC LIMIT 1) AS l ON true
         CROSS JOIN LATERAL (SELECT x.ctid AS tid FROM windlass.changed_gate x
                              WHERE x.gate = u.gate
                                AND (x.gate, x.xid) >= (u.gate, coalesce(l.seen, '0')) OFFSET 0) AS n),
    gone AS (DELETE FROM windlass.changed_gate c USING noted n WHERE c.ctid = n.tid
             RETURNING c.gate, c.turn, n.start)
    SELECT pg_snapshot_xmin(pg_current_snapshot()), array_agg(x.gate), array_agg(x.turn)
      INTO seen, gates, turns
      FROM (SELECT g.gate, min(g.turn) AS turn FROM gone g WHERE g.turn < g.start GROUP BY g.gate) AS x;
END $$;

-- Writes down where some lists begin now: those of p_moved, from which jobs were let through, and those where
-- somebody joined below the start (p_noted, at p_low). p_base: a number drawn under the locks of the gates
-- before anything was read.
-- Callers: admit_lists, admit_gate, at their end. May call: worker. Plan: generic, pinned, nested.
-- Lock: the gates', held by the caller.
CREATE OR REPLACE FUNCTION windlass.start_lists(
    p_moved text[], p_noted text[], p_low bigint[], p_seen xid8, p_base bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH asked AS MATERIALIZED (
        SELECT g.gate, s.tid, least(coalesce(s.turn, 0), n.low) AS turn, coalesce(s.run, 0) AS run
          FROM (SELECT m FROM unnest(p_moved) AS m UNION SELECT x FROM unnest(p_noted) AS x) AS g (gate)
          LEFT JOIN LATERAL (SELECT x.ctid AS tid, x.turn, x.run FROM windlass.list_start x
                              WHERE x.gate = g.gate ORDER BY x.no DESC LIMIT 1) AS s ON true
          LEFT JOIN LATERAL (SELECT min(u.turn) AS low FROM unnest(p_noted, p_low) AS u (gate, turn)
                              WHERE u.gate = g.gate) AS n ON true),
    gone AS (DELETE FROM windlass.list_start s WHERE s.ctid = ANY (ARRAY(SELECT a.tid FROM asked a)))
    INSERT INTO windlass.list_start (gate, turn, run, seen)
    SELECT w.gate,
           coalesce((SELECT h.turn FROM windlass.held h WHERE h.gate = w.gate AND h.turn >= w.turn
                      ORDER BY h.turn LIMIT 1), p_base),
           coalesce((SELECT p.run FROM windlass.pass p WHERE p.gate = w.gate AND p.run >= w.run
                      ORDER BY p.run LIMIT 1), p_base), p_seen
      FROM asked w;
END $$;

-- Moves the marks of ordering keys by p_by, once for each time that a gate is named [F6]; 0 only notes that a
-- job has ended. Other gates have none.
-- Callers: admit_lists, admit_gate, add_followers, put_back, drop_passes, import_turn. May call: worker.
-- Plan: generic, pinned, nested. Lock: the rows of the keys. Who adds the first row of a key holds its gate.
-- Later mostly one transaction at a time writes it, who has the turn, but not always: the first of a run that
-- waits to be tried again may be cancelled while the others are put back, and jobs are imported whenever. So
-- only who has removed the row writes the next one; who comes second moves what the first has left.
CREATE OR REPLACE FUNCTION windlass.move_marks(p_gates text[], p_by int) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_gates text[] := p_gates;
    v_lost  text[];
BEGIN
    WHILE array_to_string(v_gates, ' ') LIKE '%order:%' LOOP
        WITH asked AS MATERIALIZED (
            SELECT k.queue, k.key, k.n, o.tid
              FROM (SELECT substr(g, 7, strpos(g, '/') - 7) AS queue,
                           substr(g, strpos(g, '/') + 1) COLLATE "C" AS key, count(*) AS n
                      FROM unnest(v_gates) AS g WHERE g LIKE 'order:%' GROUP BY 1, 2) AS k
              LEFT JOIN LATERAL (SELECT m.ctid AS tid FROM windlass.order_mark m
                                  WHERE m.queue = k.queue AND m.key = k.key ORDER BY m.no DESC LIMIT 1) AS o
                ON true
             WHERE o.tid IS NOT NULL OR p_by > 0),
        gone AS (DELETE FROM windlass.order_mark m USING asked a WHERE m.ctid = a.tid
                 RETURNING m.queue, m.key, m.position + p_by * a.n AS position,
                           CASE WHEN p_by = 0 THEN windlass.now() ELSE m.at END AS at),
        moved AS (
            INSERT INTO windlass.order_mark (queue, key, position, at)
            SELECT g.queue, g.key, g.position, g.at FROM gone g
             UNION ALL
            SELECT a.queue, a.key, p_by * a.n, windlass.now() FROM asked a WHERE a.tid IS NULL
            RETURNING queue, key)
        SELECT CASE WHEN (SELECT count(*) FROM moved) < (SELECT count(*) FROM asked)
               THEN ARRAY(SELECT 'order:' || a.queue || '/' || a.key FROM asked a
                           WHERE (a.queue, a.key) NOT IN (SELECT m.queue, m.key FROM moved m)) END
          INTO v_lost;
        -- Who replaced it meanwhile has noted an end as well, or more.
        EXIT WHEN v_lost IS NULL OR p_by = 0;
        v_gates := ARRAY(SELECT g FROM unnest(v_gates) AS g WHERE g = ANY (v_lost));
    END LOOP;
END $$;

-- The names of up to p_n gates with a waiting list, from p_low on and below p_high, those after p_after: one
-- index probe each, however long the lists are.
-- Callers: sweep_gates, set_task, set_queue, register, budget_change, list_gates, list_watermarks.
-- May call: worker, reader. Plan: pinned, ordered. Lock: none.
CREATE OR REPLACE FUNCTION windlass.next_waiting_lists(
    p_low text, p_high text, p_after text, p_n int) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_found text[] := '{}';
    v_gate  text;
BEGIN
    IF p_after < p_low COLLATE "C" THEN
        SELECT h.gate INTO v_gate FROM windlass.held h WHERE h.gate >= p_low ORDER BY h.gate, h.turn LIMIT 1;
    ELSE
        SELECT h.gate INTO v_gate FROM windlass.held h WHERE h.gate > p_after ORDER BY h.gate, h.turn LIMIT 1;
    END IF;
    WHILE v_gate IS NOT NULL AND (p_high IS NULL OR v_gate < p_high COLLATE "C")
        AND cardinality(v_found) < p_n LOOP
        v_found := v_found || v_gate;
        SELECT h.gate INTO v_gate FROM windlass.held h WHERE h.gate > v_found[cardinality(v_found)]
         ORDER BY h.gate, h.turn LIMIT 1;
    END LOOP;
    RETURN v_found;
END $$;
