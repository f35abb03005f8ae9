-- Signals to jobs [W2]. What jobs wait for is in waits.sql.
--
-- No wake-up is lost: whoever suspends a job looks for signals that are there, whoever sends one looks for
-- jobs that wait, and where neither can see the other yet, both leave a note. It shows no sooner than what
-- it stands for, so the look that finds the note of the later one sees the job and the signal.
--
-- Whoever wakes a job ends the wait that it is woken for: it holds the job's row, so nobody else can decide
-- that wait, but for a call of the last run that is still under way, whose answer nobody awaits. Both lock in
-- the same order: the signal, the wait, the step; and the first to write the step has decided.

-- ==== Sending ====

-- Sends a signal to a job, from psql, a trigger or any language, in the caller's own transaction:
-- 'delivered' to a job that waits for it, or 'kept' for a wait to come. Refused with WL021 where the job has
-- ended. idempotency_key: the same one again, to the same job, sends nothing: 'repeated' [E7].
-- Callers: users. May call: worker, producer. Plan: free. Lock: that of send_signal.
--   SELECT windlass.signal(42, 'approved', '{"ok": true}');
CREATE OR REPLACE FUNCTION windlass.signal(
    job bigint, name text, value json DEFAULT 'null', idempotency_key text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF NOT coalesce(length(idempotency_key) BETWEEN 1 AND :fields.MAX_KEY, true) THEN
        RAISE EXCEPTION 'the idempotency key of a signal has % characters', length(idempotency_key)
            USING ERRCODE = 'WL005', HINT = 'Use 1 to :fields.MAX_KEY characters.';
    END IF;
    RETURN windlass.send_signal(job, name, value::text, false, job || '/' || idempotency_key, NULL);
END $$;

-- The same as the store and every producer adapter call it. p_own: the call is a transaction of the store's
-- own, so that the job may be woken right here. p_once: a token that sends one signal, and the seconds for
-- which that is remembered. Without these it is an idempotency key, kept as long as those of jobs: another
-- one sends nothing and is told 'repeated', also where the job has ended since [E7].
-- Callers: signal, send_signals, the store and every producer adapter. May call: worker, producer. Plan:
-- generic, pinned. Lock: with p_own those of wake_waiting; with p_once the row of the token. ACCESS SHARE on
-- claim only where the job is not found at the first look: a rotation may be moving it. The signal is in the
-- caller's transaction, however long that stays open: nobody waits for it, not even the job's own timeout.
CREATE OR REPLACE FUNCTION windlass.send_signal(
    p_job bigint, p_name text, p_value text, p_own boolean, p_once text, p_for float8) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    c_kept  CONSTANT int := :signal_rules.MAX_KEPT;  -- signals of one job
    v_state text;
    v_kept  int;
    v_waits boolean;
BEGIN
    IF p_name IS NULL OR p_name !~ '^[^#/[:cntrl:]]{1,100}$' THEN
        RAISE EXCEPTION '% cannot be the name of a signal', quote_nullable(p_name) USING ERRCODE = 'WL005',
            HINT = 'Use 1 to 100 characters without "#" and "/".';
    ELSIF p_value IS NULL OR octet_length(p_value) > :fields.MAX_BYTES THEN
        RAISE EXCEPTION 'the value of signal % has % bytes, more than 1 MiB', p_name, octet_length(p_value)
            USING ERRCODE = 'WL007', HINT = 'Store the data elsewhere and send a reference to it.';
    END IF;
    IF p_once IS NOT NULL AND p_for IS NULL
       AND EXISTS (SELECT FROM windlass.signal_once o
                    WHERE o.token = p_once AND o.until > windlass.now()) THEN
        RETURN 'repeated';
    END IF;
    v_state := (SELECT s.state FROM windlass.standing_of(p_job) AS s);
    IF v_state IS NULL THEN
        LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
        v_state := (SELECT s.state FROM windlass.standing_of(p_job) AS s);
    END IF;
    IF v_state IS NULL THEN
        RAISE EXCEPTION 'there is no job % to signal', p_job USING ERRCODE = 'WL010',
            HINT = 'It never existed, was deleted, or its retention has passed.';
    ELSIF v_state IN (:states.FINISHED) THEN
        RAISE EXCEPTION 'job % is % and takes no signals', p_job, v_state USING ERRCODE = 'WL021',
            DETAIL = 'ended';
    END IF;
    IF p_once IS NOT NULL THEN
        INSERT INTO windlass.signal_once AS o (token, until)
        SELECT p_once, windlass.in_seconds(coalesce(p_for, m.idempotency_retention)) FROM windlass.meta m
        ON CONFLICT (token) DO UPDATE SET until = excluded.until WHERE o.until <= windlass.now();
        IF NOT FOUND AND p_for IS NULL THEN
            RETURN 'repeated';  -- by a transaction that was open at the first look
        ELSIF NOT FOUND THEN
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
        INSERT INTO windlass.signal_note (job) VALUES (p_job);
        PERFORM windlass.wake('+');
    END IF;
    RETURN CASE WHEN v_waits THEN 'delivered' ELSE 'kept' END;
END $$;

-- Sends signals of many callers in one transaction of the store's own: what became of each, in order, as in
-- send_signal. Where one is refused, none is sent. p_shapes: the shape that each value was found to fit, ''
-- where none is known. The signal of a job that waits for another shape is not sent, and that shape is the
-- answer, behind the word 'shape'. NULL: any value is taken.
-- Callers: the store. May call: worker, producer. Plan: generic, pinned. Lock: those of answer_waiting; those
-- of send_signal.
-- Nearly all signals are for a job that waits for just this: these are taken together.
CREATE OR REPLACE FUNCTION windlass.send_signals(
    p_jobs bigint[], p_names text[], p_values text[], p_shapes text[] DEFAULT NULL)
RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_jobs  bigint[];
    v_found text[];
    v_taken int[] := '{}';
BEGIN
    SELECT array_agg(CASE WHEN w.shape IS NULL THEN u.job END ORDER BY u.place),
           array_agg('shape ' || w.shape ORDER BY u.place)
      INTO v_jobs, v_found
      FROM unnest(p_jobs, p_names, p_shapes) WITH ORDINALITY AS u (job, name, shape, place)
      LEFT JOIN LATERAL (SELECT nullif(x.shape::text, u.shape) AS shape
                           FROM windlass.wait x JOIN windlass.deferred d ON d.id = x.job
                          WHERE u.shape IS NOT NULL AND x.job = u.job AND x.signal = u.name
                            AND d.suspended = x.claim
                          ORDER BY x.no + 0 LIMIT 1) AS w ON true;  -- not by the index of all waits
    IF current_setting('transaction_isolation') = 'read committed' THEN
        v_taken := windlass.answer_waiting(v_jobs, p_names, p_values);
    END IF;
    IF cardinality(v_taken) = cardinality(p_jobs) THEN
        RETURN array_fill('delivered'::text, ARRAY[cardinality(p_jobs)]);
    END IF;
    FOR i IN 1 .. cardinality(p_jobs) LOOP
        IF v_found[i] IS NULL THEN
            v_found[i] := CASE WHEN i = ANY (v_taken) THEN 'delivered'
                          ELSE windlass.send_signal(p_jobs[i], p_names[i], p_values[i], true, NULL, NULL) END;
        END IF;
    END LOOP;
    RETURN v_found;
END $$;

-- Answers jobs that wait for just these signals, where none of the name was sent before, and offers them: the
-- places of the signals that are taken. Of several to one job only the first may be.
-- Callers: send_signals. May call: worker. Plan: generic, pinned. Lock: the jobs' rows, without waiting;
-- those of end_waits; those of go_on.
CREATE OR REPLACE FUNCTION windlass.answer_waiting(p_jobs bigint[], p_names text[], p_values text[])
RETURNS int[]
LANGUAGE plpgsql AS $$
DECLARE
    m       record;
    v_taken int[];
BEGIN
    SELECT array_agg(x.place) AS places, array_agg(x.job) AS jobs, array_agg(x.attempt) AS attempts,
           array_agg(x.name) AS names, array_agg(x.wait) AS waits, array_agg(x.value) AS "values"
      INTO m
      FROM (SELECT u.place::int, u.value, d.id AS job, d.attempt, w.name, w.wait
              FROM (SELECT DISTINCT ON (y.job) y.* FROM unnest(p_jobs, p_names, p_values) WITH ORDINALITY
                      AS y (job, signal, value, place) ORDER BY y.job, y.place) AS u
             CROSS JOIN LATERAL (SELECT x.name, x.claim, x.ctid AS wait FROM windlass.wait x
                                  WHERE x.job = u.job AND x.signal = u.signal
                                  ORDER BY x.no + 0 LIMIT 1) AS w  -- not by the index of all waits
             CROSS JOIN LATERAL (SELECT x.id, x.attempt FROM windlass.deferred x
                                  WHERE x.id = u.job AND x.suspended = w.claim
                                    AND octet_length(u.value) <= :fields.MAX_BYTES
                                    AND NOT EXISTS (SELECT FROM windlass.signal g
                                                     WHERE g.job = u.job AND g.name = u.signal OFFSET 0)
                                    FOR UPDATE SKIP LOCKED) AS d) AS x;
    IF m.jobs IS NULL THEN
        RETURN '{}';
    END IF;
    v_taken := windlass.end_waits(m.jobs, m.attempts, m.names, m.waits, m.values);
    PERFORM windlass.go_on(m.jobs);
    RETURN CASE WHEN cardinality(v_taken) = cardinality(m.places) THEN m.places
                ELSE ARRAY(SELECT m.places[t] FROM unnest(v_taken) AS t) END;
END $$;

-- ==== Waking ====

-- Ends waits of jobs with the values of signals: each is a step from then on. Returns the places of those
-- that were; the others have a step already, written by a call of the last run.
-- Callers: answer_waiting, wake_waiting. May call: worker. Plan: the caller's. Lock: the waits, then the
-- steps. The caller holds the rows of the jobs, and of the signals.
CREATE OR REPLACE FUNCTION windlass.end_waits(
    p_jobs bigint[], p_attempts smallint[], p_names text[], p_waits tid[], p_values text[]) RETURNS int[]
LANGUAGE plpgsql AS $$
DECLARE
    v_now   timestamptz := windlass.now();
    v_ended int[];
BEGIN
    DELETE FROM windlass.wait w WHERE w.ctid = ANY (p_waits);
    WITH written AS (
        INSERT INTO windlass.step AS s (job, at, attempt, name, code, result)
        SELECT u.job, windlass.step_at(v_now, u.place), u.attempt, u.name, 'signal', u.value::json
          FROM unnest(p_jobs, p_attempts, p_names, p_values) WITH ORDINALITY
            AS u (job, attempt, name, value, place)
        ON CONFLICT DO NOTHING RETURNING s.at)
    SELECT array_agg(windlass.step_place(v_now, w.at)) INTO v_ended FROM written w;
    RETURN coalesce(v_ended, '{}');
END $$;

-- Offers jobs that waited for a signal.
-- Callers: answer_waiting, wake_waiting, whose settings are those of this function. May call: worker. Plan:
-- the caller's. Lock: their rows, held by the caller; those of offer.
CREATE OR REPLACE FUNCTION windlass.go_on(p_jobs bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_out   tid[];
    v_aside boolean;
BEGIN
    SELECT array_agg(x.place) INTO v_out
      FROM (SELECT g.places
              FROM (SELECT d.queue, d.priority, d.abilities, array_agg(d.place ORDER BY d.id) AS places
                      FROM (SELECT y.ctid AS place, y.id, y.queue, y.priority,
                                   windlass.abilities_of(y.options) AS abilities
                              FROM windlass.deferred y
                             WHERE y.id = ANY (p_jobs) AND y.replaces IS NULL OFFSET 0) AS d
                     GROUP BY d.queue, d.priority, d.abilities OFFSET 0) AS g
             WHERE windlass.lane_for(g.queue, g.priority, g.abilities) IS NOT NULL OFFSET 0) AS l
     CROSS JOIN LATERAL unnest(l.places) AS x (place);
    v_aside := windlass.offer_deferred(coalesce(v_out, '{}'));
    IF v_aside OR coalesce(cardinality(v_out), 0) < cardinality(p_jobs) THEN
        -- A lane has to be declared for the others: they are due now, with a new xid, as in serve_after.
        UPDATE windlass.deferred d SET run_at = windlass.now(), xid = pg_current_xact_id(), suspended = NULL
         WHERE d.id = ANY (p_jobs);
        PERFORM windlass.wake('+');
    END IF;
END $$;

-- Wakes those of some jobs that wait for a signal which is there, and ends the waits with the oldest signal
-- of each name. woken: which these are. held: those that somebody else holds.
-- Callers: send_signal, deliver_signals. May call: worker. Plan: generic, pinned. Lock: their rows and the
-- signals, without waiting; those of end_waits; those of go_on. Where somebody holds a signal, its job is
-- woken nevertheless, and asks.
CREATE OR REPLACE FUNCTION windlass.wake_waiting(p_jobs bigint[], OUT woken bigint[], OUT held bigint[])
LANGUAGE plpgsql AS $$
DECLARE
    m       record;
    v_taken int[];
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
    SELECT array_agg(w.job) AS jobs, array_agg(w.attempt) AS attempts, array_agg(w.name) AS names,
           array_agg(w.wait) AS waits, array_agg(s.signal) AS signals, array_agg(s.value) AS "values"
      INTO m
      FROM (SELECT DISTINCT ON (x.job, x.signal) x.job, x.signal, x.name, x.ctid AS wait, d.attempt
              FROM (SELECT y.id, y.attempt, y.suspended FROM windlass.deferred y
                     WHERE y.id = ANY (woken) OFFSET 0) AS d
             CROSS JOIN LATERAL (SELECT z.*, z.ctid FROM windlass.wait z
                                  WHERE z.job = d.id AND z.claim = d.suspended OFFSET 0) AS x
             ORDER BY x.job, x.signal, x.no) AS w
     CROSS JOIN LATERAL (SELECT g.ctid AS signal, g.value::text AS value FROM windlass.signal g
                          WHERE g.job = w.job AND g.name = w.signal ORDER BY g.no LIMIT 1
                            FOR UPDATE SKIP LOCKED) AS s;
    IF m.jobs IS NOT NULL THEN
        v_taken := windlass.end_waits(m.jobs, m.attempts, m.names, m.waits, m.values);
        DELETE FROM windlass.signal g
         WHERE g.ctid = ANY (ARRAY(SELECT m.signals[t] FROM unnest(v_taken) AS t));
    END IF;
    IF woken <> '{}' THEN
        PERFORM windlass.go_on(woken);
    END IF;
    held := ARRAY(SELECT j FROM unnest(held) AS j WHERE j <> ALL (woken));
END $$;

-- One bounded step: looks at the oldest notes, and wakes their jobs where a signal is there. Returns how
-- many notes it looked at; 0 where somebody holds all of their jobs. Such a note goes to the back: his
-- transaction may be rolled back. Notes are read from the oldest that was there the last time: under an open
-- snapshot those that are gone would be walked over again [rule 14].
-- Callers: the store's promote. May call: worker. Plan: pinned, ordered. Lock: the notes, without waiting;
-- those of wake_waiting; the row that says from where on to read, without waiting, now and then.
CREATE OR REPLACE FUNCTION windlass.deliver_signals(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    c_many  CONSTANT int := 100;  -- notes, or transactions, after which the next look begins further on
    v_noted xid8 := (SELECT k.noted FROM windlass.signal_look k);
    v_from  xid8;
    v_notes tid[];
    v_jobs  bigint[];
    v_left  bigint[];
BEGIN
    PERFORM windlass.require_read_committed();
    SELECT array_agg(n.place), array_agg(n.job) INTO v_notes, v_jobs
      FROM (SELECT x.ctid AS place, x.job FROM windlass.signal_note x WHERE x.xid >= v_noted ORDER BY x.xid
             LIMIT p_limit FOR UPDATE SKIP LOCKED) AS n;
    IF v_notes IS NULL THEN
        RETURN 0;
    END IF;
    v_left := (windlass.wake_waiting(v_jobs)).held;
    DELETE FROM windlass.signal_note n WHERE n.ctid = ANY (v_notes);
    INSERT INTO windlass.signal_note (job) SELECT j FROM unnest(v_left) AS j;
    -- One snapshot: what is not in it comes from a transaction that is not before its xmin.
    SELECT least(pg_snapshot_xmin(pg_current_snapshot()), c.xid) INTO v_from
      FROM (SELECT (SELECT x.xid FROM windlass.signal_note x WHERE x.xid >= v_noted ORDER BY x.xid
                     LIMIT 1) AS xid) AS c;
    IF v_from > v_noted AND (cardinality(v_notes) >= c_many
                             OR v_from::text::bigint - v_noted::text::bigint >= c_many) THEN
        PERFORM FROM windlass.signal_look k FOR UPDATE SKIP LOCKED;
        IF FOUND THEN
            UPDATE windlass.signal_look k SET noted = greatest(k.noted, v_from);
        END IF;
    END IF;
    RETURN CASE WHEN cardinality(v_left) < cardinality(v_notes) THEN cardinality(v_notes) ELSE 0 END;
END $$;

-- ==== Forgetting ====

-- Removes what jobs that are gone wait for, and the signals that they have not taken.
-- Callers: drop_steps, expire_signals. May call: worker. Plan: pinned. Lock: the rows.
CREATE OR REPLACE FUNCTION windlass.drop_signals(p_jobs bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM windlass.wait w WHERE w.job = ANY (p_jobs);
    DELETE FROM windlass.signal g WHERE g.job = ANY (p_jobs);
END $$;

-- One bounded step: removes the waits and signals of jobs that the store no longer knows. Looks at up to
-- p_limit jobs that have some, and goes on there the next time. Returns of how many jobs it removed some.
-- Callers: expire, which holds ACCESS SHARE on claim, so that its snapshot is younger than any rotation that
-- moved a job. May call: worker. Plan: pinned, ordered. Lock: the row that says how far it has come, without
-- waiting.
CREATE OR REPLACE FUNCTION windlass.expire_signals(p_limit int) RETURNS int
LANGUAGE plpgsql AS $$
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
-- Callers: deferred_reason. May call: worker, reader. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.waits_since(p_at timestamptz, p_until timestamptz) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT ' since ' || to_char(p_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC'
           || coalesce(', until ' || to_char(p_until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC',
                       '')
$$;

-- ==== Statements that the store sends ====

-- :signal_sent
-- Whether a signal with this idempotency key was sent before.
-- Callers: the store's signal, for a value that does not fit what the job waits for now. Lock: none.
SELECT EXISTS (SELECT FROM windlass.signal_once o WHERE o.token = $1 AND o.until > windlass.now()) AS sent
