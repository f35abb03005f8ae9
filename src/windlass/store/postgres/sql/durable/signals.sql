-- Signals to jobs, and jobs that wait for them [W2].
--
-- No wake-up is lost: whoever suspends a job looks for signals that are there, whoever sends one looks for
-- jobs that wait, and where neither can see the other yet, both leave a note. It shows no sooner than what
-- it stands for, so the look that finds the note of the later one sees the job and the signal.

-- ==== Sending ====

-- Sends a signal to a job, from psql, a trigger or any language, in the caller's own transaction:
-- 'delivered' to a job that waits for it, or 'kept' for a wait to come. Refused with WL021 where the job has
-- ended.
-- Callers: users. May call: worker, producer. Lock: that of send_signal.
--   SELECT windlass.signal(42, 'approved', '{"ok": true}');
CREATE OR REPLACE FUNCTION windlass.signal(job bigint, name text, value json DEFAULT 'null') RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    RETURN windlass.send_signal(job, name, value::text, false, NULL, NULL);
END $$;

-- The same as the store and every producer adapter call it. p_own: the call is a transaction of the store's
-- own, so that the job may be woken right here. p_once: a token that sends one signal ever, and the seconds
-- for which that is remembered.
-- Callers: signal, the store and every producer adapter. May call: worker, producer. Lock: with p_own those
-- of wake_waiting; with p_once the row of the token. ACCESS SHARE on claim only where the job is not found
-- at the first look: a rotation may be moving it. The signal is in the caller's transaction, however long
-- that stays open: nobody waits for it, not even the job's own timeout.
CREATE OR REPLACE FUNCTION windlass.send_signal(
    p_job bigint, p_name text, p_value text, p_own boolean, p_once text, p_for float8) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    c_kept  CONSTANT int := 1000;  -- signals of one job
    v_state text;
    v_kept  int;
    v_waits boolean;
BEGIN
    IF p_name IS NULL OR p_name !~ '^[^#/[:cntrl:]]{1,100}$' THEN
        RAISE EXCEPTION '% cannot be the name of a signal', quote_nullable(p_name) USING ERRCODE = 'WL005',
            HINT = 'Use 1 to 100 characters without "#" and "/".';
    ELSIF p_value IS NULL OR octet_length(p_value) > 1048576 THEN
        RAISE EXCEPTION 'the value of signal % has % bytes, more than 1 MiB', p_name, octet_length(p_value)
            USING ERRCODE = 'WL007', HINT = 'Store the data elsewhere and send a reference to it.';
    END IF;
    v_state := (SELECT s.state FROM windlass.standing_of(p_job) AS s);
    IF v_state IS NULL THEN
        LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
        v_state := (SELECT s.state FROM windlass.standing_of(p_job) AS s);
    END IF;
    IF v_state IS NULL THEN
        RAISE EXCEPTION 'there is no job % to signal', p_job USING ERRCODE = 'WL010',
            HINT = 'It never existed, was deleted, or its retention has passed.';
    ELSIF v_state IN ('succeeded', 'dead', 'cancelled') THEN
        RAISE EXCEPTION 'job % is % and takes no signals', p_job, v_state USING ERRCODE = 'WL021',
            DETAIL = 'ended';
    END IF;
    IF p_once IS NOT NULL THEN
        INSERT INTO windlass.signal_once (token, until) VALUES (p_once, windlass.in_seconds(p_for))
        ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'this signal was sent before' USING ERRCODE = 'WL021', DETAIL = 'used';
        END IF;
    END IF;
    v_kept := (SELECT count(*) FROM (SELECT FROM windlass.signal g WHERE g.job = p_job LIMIT c_kept) AS x);
    IF v_kept >= c_kept THEN
        RAISE EXCEPTION 'job % has % signals that it has not taken yet', p_job, v_kept
            USING ERRCODE = 'WL021', DETAIL = 'full', HINT = 'Send it more when it has taken some.';
    END IF;
    v_waits := EXISTS (SELECT FROM windlass.wait w JOIN windlass.deferred d ON d.id = w.job
                        WHERE w.job = p_job AND w.signal = p_name AND d.suspended = w.claim)
           AND NOT EXISTS (SELECT FROM windlass.signal g WHERE g.job = p_job AND g.name = p_name);
    INSERT INTO windlass.signal (job, no, at, name, value)
    VALUES (p_job, nextval('windlass.signal_no'), windlass.now(), p_name, p_value::json);
    IF NOT (p_own AND v_waits AND current_setting('transaction_isolation') = 'read committed'
            AND (windlass.wake_waiting(ARRAY[p_job])).woken = ARRAY[p_job]) THEN
        -- Also where it was seen to wait and has gone on since: it may wait again before this commits.
        INSERT INTO windlass.signal_note (no, job) VALUES (nextval('windlass.signal_no'), p_job);
        PERFORM windlass.wake('+');
    END IF;
    RETURN CASE WHEN v_waits THEN 'delivered' ELSE 'kept' END;
END $$;

-- ==== Waiting ====

-- What a handler waits for, fenced by worker and claim [C5]. state: 'answered', with the value of the oldest
-- signal of that name, which no other wait gets; 'timeout', from when its time was over on; or 'waits', with
-- the seconds that are left, NULL for ever. The first two are a step from then on, and stand. NULL: the
-- claim is not the worker's, or the job has ended. p_name: the step's, p_timeout: seconds from the first
-- time it is asked.
-- Callers: the store. May call: worker. Lock: the life row FOR KEY SHARE, see worker_fence; the signal that
-- it takes. Where the same was asked before, without an answer, and is still being written, this waits for it
-- and answers the same.
CREATE OR REPLACE FUNCTION windlass.wait_for_signal(
    p_worker bigint, p_job bigint, p_lane int, p_claim bigint, p_seq bigint, p_attempt int, p_name text,
    p_signal text, p_timeout float8, p_shape text,
    OUT state text, OUT value json, OUT remaining float8, OUT at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    d       record;
    v_until timestamptz;
    v_no    bigint;
BEGIN
    PERFORM windlass.worker_fence(p_worker, true);
    PERFORM FROM windlass.claim c
      WHERE c.lane = p_lane AND c.id = p_claim AND c.worker = p_worker
        AND windlass.unfinished(c.id, c.seqs) @> p_seq;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT d.state, d.value, d.at INTO state, value, at FROM windlass.decided_wait(p_job, p_name) AS d;
    IF state IS NOT NULL THEN
        RETURN;
    END IF;
    at := windlass.now();
    SELECT g.no, g.value INTO v_no, value FROM windlass.signal g WHERE g.job = p_job AND g.name = p_signal
     ORDER BY g.no LIMIT 1 FOR UPDATE;
    IF FOUND THEN
        state := 'answered';
    ELSE
        INSERT INTO windlass.wait AS w (job, no, claim, at, until, name, signal, shape)
        VALUES (p_job, nextval('windlass.signal_no'), p_claim, at,
                CASE WHEN p_timeout IS NOT NULL THEN windlass.in_seconds(p_timeout) END, p_name, p_signal,
                p_shape::json)
        ON CONFLICT (job, name) DO UPDATE SET claim = excluded.claim RETURNING w.until INTO v_until;
        remaining := date_part('epoch', v_until - windlass.now());
        state := CASE WHEN remaining <= 0 THEN 'timeout' ELSE 'waits' END;
    END IF;
    IF state <> 'waits' THEN
        INSERT INTO windlass.step (job, no, at, attempt, name, code, result)
        VALUES (p_job, nextval('windlass.step_no'), at, p_attempt, p_name,
                CASE state WHEN 'timeout' THEN 'timeout' ELSE 'signal' END, coalesce(value, 'null'))
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            DELETE FROM windlass.signal g WHERE g.job = p_job AND g.name = p_signal AND g.no = v_no;
            DELETE FROM windlass.wait w WHERE w.job = p_job AND w.name = p_name;
            RETURN;
        END IF;
    END IF;
    -- While this waited for an earlier call, that one may have decided.
    SELECT d.state, d.value, d.at INTO d FROM windlass.decided_wait(p_job, p_name) AS d;
    IF d.state IS NOT NULL THEN
        DELETE FROM windlass.wait w WHERE w.job = p_job AND w.name = p_name;
        state := d.state;
        value := d.value;
        at := d.at;
        remaining := NULL;
    END IF;
END $$;

-- What a wait has become, by its step; NULL: nothing yet.
-- Callers: wait_for_signal. May call: worker. Lock: none.
CREATE OR REPLACE FUNCTION windlass.decided_wait(
    p_job bigint, p_name text, OUT state text, OUT value json, OUT at timestamptz)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    SELECT CASE s.code WHEN 'timeout' THEN 'timeout' ELSE 'answered' END, s.result, s.at INTO state, value, at
      FROM windlass.step s WHERE s.job = p_job AND s.name = p_name;
END $$;

-- Whether a job that is put off waits for signals, by what was asked under this claim, and until when: never
-- longer than its first timeout, and not at all where a signal is there.
-- Callers: finish_others. May call: worker. Lock: none: it only adds a row.
CREATE OR REPLACE FUNCTION windlass.suspension(
    p_job bigint, p_claim bigint, p_delay float8, OUT waits boolean, OUT delay float8)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_there boolean;
BEGIN
    SELECT count(*) > 0, least(p_delay, min(date_part('epoch', w.until - windlass.now()))),
           bool_or(EXISTS (SELECT FROM windlass.signal g WHERE g.job = w.job AND g.name = w.signal))
      INTO waits, delay, v_there
      FROM windlass.wait w WHERE w.job = p_job AND w.claim = p_claim;
    IF waits AND (v_there OR delay <= 0) THEN
        waits := false;
        delay := 0;
    ELSIF waits THEN
        INSERT INTO windlass.signal_note (no, job) VALUES (nextval('windlass.signal_no'), p_job);
        PERFORM windlass.wake('+');
    END IF;
END $$;

-- ==== Waking ====

-- Offers those of some jobs that wait for a signal which is there. woken: which these are. held: those that
-- somebody else holds.
-- Callers: send_signal, deliver_signals. May call: worker. Lock: their rows, without waiting; those of
-- offer.
CREATE OR REPLACE FUNCTION windlass.wake_waiting(p_jobs bigint[], OUT woken bigint[], OUT held bigint[])
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_out   tid[];
    v_aside boolean;
BEGIN
    woken := '{}';
    held := ARRAY(SELECT d.id FROM windlass.deferred d
                   WHERE d.id = ANY (p_jobs) AND d.suspended IS NOT NULL
                     AND EXISTS (SELECT FROM windlass.wait w
                                   JOIN windlass.signal g ON g.job = w.job AND g.name = w.signal
                                  WHERE w.job = d.id AND w.claim = d.suspended OFFSET 0));
    IF held = '{}' THEN
        RETURN;
    END IF;
    woken := ARRAY(SELECT d.id FROM windlass.deferred d
                    WHERE d.id = ANY (held) AND d.suspended IS NOT NULL FOR UPDATE SKIP LOCKED);
    SELECT array_agg(x.place) INTO v_out
      FROM (SELECT array_agg(d.place ORDER BY d.id) AS places
              FROM (SELECT y.ctid AS place, y.id, y.queue, y.priority FROM windlass.deferred y
                     WHERE y.id = ANY (woken) AND y.replaces IS NULL OFFSET 0) AS d
             GROUP BY d.queue, d.priority
            HAVING windlass.lane_for(d.queue, d.priority) IS NOT NULL) AS g
     CROSS JOIN LATERAL unnest(g.places) AS x (place);
    v_aside := windlass.offer_deferred(coalesce(v_out, '{}'));
    -- A lane has to be declared for the others: they are due now, with a new xid, as in serve_after.
    UPDATE windlass.deferred d SET run_at = windlass.now(), xid = pg_current_xact_id(), suspended = NULL
     WHERE d.id = ANY (woken);
    IF FOUND OR v_aside THEN
        PERFORM windlass.wake('+');
    END IF;
    held := ARRAY(SELECT j FROM unnest(held) AS j WHERE j <> ALL (woken));
END $$;

-- One bounded step: looks at the oldest notes, and wakes their jobs where a signal is there. Returns how
-- many notes it took away. One whose job somebody holds goes to the back: his transaction may be rolled
-- back.
-- Callers: the store's promote. May call: worker. Lock: the notes, without waiting; those of wake_waiting.
CREATE OR REPLACE FUNCTION windlass.deliver_signals(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    v_notes bigint[];
    v_jobs  bigint[];
    v_left  bigint[];
BEGIN
    PERFORM windlass.require_read_committed();
    SELECT array_agg(n.no), array_agg(n.job) INTO v_notes, v_jobs
      FROM (SELECT x.no, x.job FROM windlass.signal_note x ORDER BY x.no LIMIT p_limit
               FOR UPDATE SKIP LOCKED) AS n;
    IF v_notes IS NULL THEN
        RETURN 0;
    END IF;
    v_left := (windlass.wake_waiting(v_jobs)).held;
    DELETE FROM windlass.signal_note n WHERE n.no = ANY (v_notes);
    INSERT INTO windlass.signal_note (no, job)
    SELECT nextval('windlass.signal_no'), j FROM unnest(v_left) AS j;
    RETURN cardinality(v_notes) - cardinality(v_left);
END $$;

-- ==== Forgetting ====

-- Removes what jobs that are gone wait for, and the signals that they have not taken.
-- Callers: drop_steps, expire_signals. May call: worker. Lock: the rows.
CREATE OR REPLACE FUNCTION windlass.drop_signals(p_jobs bigint[]) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    DELETE FROM windlass.wait w WHERE w.job = ANY (p_jobs);
    DELETE FROM windlass.signal g WHERE g.job = ANY (p_jobs);
END $$;

-- One bounded step: removes the waits and signals of jobs that the store no longer knows. Looks at up to
-- p_limit jobs that have some, and goes on there the next time. Returns of how many jobs it removed some.
-- Callers: expire, which holds ACCESS SHARE on claim, so that its snapshot is younger than any rotation that
-- moved a job. May call: worker. Lock: the row that says how far it has come, without waiting.
CREATE OR REPLACE FUNCTION windlass.expire_signals(p_limit int) RETURNS int
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET jit = off AS $$
DECLARE
    v_from bigint;
    v_job  bigint;
    v_seen int := 0;
    v_gone bigint[] := '{}';
BEGIN
    SELECT k.job INTO v_from FROM windlass.signal_look k FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    v_job := v_from;
    WHILE v_seen < p_limit LOOP
        SELECT min(x.job) INTO v_job
          FROM ((SELECT w.job FROM windlass.wait w WHERE w.job > v_job ORDER BY w.job LIMIT 1)
                UNION ALL
                (SELECT g.job FROM windlass.signal g WHERE g.job > v_job ORDER BY g.job LIMIT 1)) AS x;
        EXIT WHEN v_job IS NULL;
        v_seen := v_seen + 1;
        IF (SELECT s.state FROM windlass.standing_of(v_job) AS s) IS NULL THEN
            v_gone := v_gone || v_job;
        END IF;
    END LOOP;
    PERFORM windlass.drop_signals(v_gone);
    UPDATE windlass.signal_look k SET job = coalesce(v_job, 0) WHERE k.job <> coalesce(v_job, 0);
    RETURN cardinality(v_gone);
END $$;

-- ==== Showing ====

-- Since when and until when somebody waits, in words. reason in windlass.store.signal_rules says the same.
-- Callers: deferred_reason. May call: worker, reader. Lock: none.
CREATE OR REPLACE FUNCTION windlass.waits_since(p_at timestamptz, p_until timestamptz) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT ' since ' || to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC'
           || coalesce(', until ' || to_char(p_until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC',
                       '')
$$;

-- ==== Statements that the store sends ====

-- :waits
-- What jobs wait for now, newest first: of one job, or behind a place in the list of all.
-- Callers: the store's waits. Lock: none. Runs that went another way have left rows, too: these are few.
SELECT w.job, w.no, w.name, w.signal, w.shape, date_part('epoch', w.at) AS since,
       date_part('epoch', w.until) AS until, d.task, d.queue
  FROM windlass.wait w
 CROSS JOIN LATERAL (SELECT x.task, x.queue FROM windlass.deferred x
                      WHERE x.id = w.job AND x.suspended = w.claim LIMIT 1) AS d
 WHERE ($1::bigint IS NULL OR w.job = $1) AND ($2::bigint IS NULL OR w.no < $2)
   AND ($3::text IS NULL OR w.signal = $3)
 ORDER BY w.no DESC LIMIT $4
