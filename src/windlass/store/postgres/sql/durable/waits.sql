-- What jobs wait for, until they have it [W2]. Who sends it, and how no wake-up is lost, is in signals.sql.

-- ==== Waiting ====

-- What handlers of a worker wait for, fenced by worker and claim [C5]; the arrays have an element for each
-- wait, and p_of says which of the claims its job is of. states: 'answered', with the value of the oldest
-- signal of that name, which no other wait gets; 'timeout', from when its time was over on; or 'waits', with
-- the seconds that are left, NULL for ever. The first two are a step from then on, and stand. NULL: the claim
-- is not the worker's, or the job has ended. p_names: the steps', p_timeouts: seconds from the first time it
-- is asked.
-- Callers: the store. May call: worker. Plan: generic, pinned. Lock: the life row FOR KEY SHARE, see
-- worker_fence; the waits in their order; those of decide_wait. That a claim holds a job is looked up once
-- for each claim.
-- Nearly all of them begin to wait: these are written together.
CREATE OR REPLACE FUNCTION windlass.wait_for_signals(
    p_worker bigint, p_lanes int[], p_claims bigint[], p_of int[], p_seqs bigint[], p_jobs bigint[],
    p_attempts int[], p_names text[], p_signals text[], p_timeouts float8[], p_shapes text[],
    OUT states text[], OUT "values" text[], OUT remaining float8[], OUT at timestamptz[])
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_left int8multirange[] := '{}';
    v_one  int8multirange;
    v_now  timestamptz;
    v_no   bigint[];
    w      record;
    d      record;
BEGIN
    PERFORM windlass.worker_fence(p_worker, true);
    FOR i IN 1 .. cardinality(p_claims) LOOP
        SELECT windlass.unfinished(c.id, c.seqs) INTO v_one FROM windlass.claim c
         WHERE c.lane = p_lanes[i] AND c.id = p_claims[i] AND c.worker = p_worker;
        v_left := v_left || coalesce(v_one, '{}');
    END LOOP;
    v_now := windlass.now();
    states := array_fill(NULL::text, ARRAY[cardinality(p_jobs)]);
    "values" := states;
    remaining := states::float8[];
    at := states::timestamptz[];
    v_no := states::bigint[];
    FOR i IN 1 .. cardinality(p_jobs) LOOP
        IF v_left[p_of[i]] @> p_seqs[i] THEN
            v_no[i] := nextval('windlass.signal_no');
        END IF;
    END LOOP;
    FOR w IN
        WITH written AS (
            INSERT INTO windlass.wait AS x (job, no, claim, at, until, name, signal, shape)
            SELECT u.job, u.no, p_claims[u.of], v_now,
                   CASE WHEN u.timeout IS NOT NULL THEN windlass.in_seconds(u.timeout) END, u.name, u.signal,
                   u.shape::json
              FROM unnest(v_no, p_of, p_jobs, p_names, p_signals, p_timeouts, p_shapes)
                AS u (no, of, job, name, signal, timeout, shape)
             WHERE u.no IS NOT NULL AND (u.timeout > 0) IS NOT FALSE
               AND NOT EXISTS (SELECT FROM windlass.step s
                                WHERE s.job = u.job AND s.name = u.name OFFSET 0)
               AND NOT EXISTS (SELECT FROM windlass.signal g
                                WHERE g.job = u.job AND g.name = u.signal OFFSET 0)
             ORDER BY u.job, u.name
            -- Never back to the claim of an earlier run, whose last call may come late.
            ON CONFLICT (job, name) DO UPDATE SET claim = greatest(x.claim, excluded.claim)
            RETURNING x.job, x.name, date_part('epoch', x.until - v_now) AS left_s)
        SELECT u.place::int, r.name IS NOT NULL AS begun, r.left_s
          FROM unnest(v_no, p_jobs, p_names) WITH ORDINALITY AS u (no, job, name, place)
          LEFT JOIN written r ON r.job = u.job AND r.name = u.name
         WHERE u.no IS NOT NULL
    LOOP
        IF w.begun AND (w.left_s > 0) IS NOT FALSE THEN
            states[w.place] := 'waits';
            remaining[w.place] := w.left_s;
        END IF;
    END LOOP;
    -- Those that are over, or are answered; and those of which an earlier call, which the insert has waited
    -- for, has decided.
    FOR w IN
        SELECT u.place::int FROM unnest(v_no, states, p_jobs, p_names) WITH ORDINALITY
            AS u (no, state, job, name, place)
         WHERE u.no IS NOT NULL
           AND (u.state IS NULL OR EXISTS (SELECT FROM windlass.step s
                                            WHERE s.job = u.job AND s.name = u.name OFFSET 0))
    LOOP
        SELECT * INTO d
          FROM windlass.decide_wait(p_jobs[w.place], p_claims[p_of[w.place]], p_attempts[w.place],
                                    p_names[w.place], p_signals[w.place], p_timeouts[w.place],
                                    p_shapes[w.place]);
        states[w.place] := d.state;
        "values"[w.place] := d.value;
        remaining[w.place] := d.remaining;
        at[w.place] := d.at;
    END LOOP;
END $$;

-- One wait, which may be over: as above.
-- Callers: wait_for_signals, which has proven whose the job is. May call: worker. Plan: generic, pinned.
-- Lock: the signal that it takes, the wait, the step, in this order. Where the same was asked before, without
-- an answer, and is still being written, this waits for it and answers the same.
CREATE OR REPLACE FUNCTION windlass.decide_wait(
    p_job bigint, p_claim bigint, p_attempt int, p_name text, p_signal text, p_timeout float8, p_shape text,
    OUT state text, OUT value text, OUT remaining float8, OUT at timestamptz)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    d       record;
    v_until timestamptz;
    v_no    bigint;
BEGIN
    SELECT d.state, d.value, d.at INTO state, value, at FROM windlass.decided_wait(p_job, p_name) AS d;
    IF state IS NOT NULL THEN
        DELETE FROM windlass.wait w WHERE w.job = p_job AND w.name = p_name;
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
        ON CONFLICT (job, name) DO UPDATE SET claim = greatest(w.claim, excluded.claim)
        RETURNING w.until INTO v_until;
        remaining := date_part('epoch', v_until - windlass.now());
        state := CASE WHEN remaining <= 0 THEN 'timeout' ELSE 'waits' END;
    END IF;
    IF state <> 'waits' THEN
        DELETE FROM windlass.wait w WHERE w.job = p_job AND w.name = p_name;
        INSERT INTO windlass.step (job, at, attempt, name, code, result)
        VALUES (p_job, at, p_attempt, p_name, CASE state WHEN 'timeout' THEN 'timeout' ELSE 'signal' END,
                coalesce(value, 'null')::json)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            DELETE FROM windlass.signal g WHERE g.job = p_job AND g.name = p_signal AND g.no = v_no;
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
-- Callers: decide_wait. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.decided_wait(
    p_job bigint, p_name text, OUT state text, OUT value text, OUT at timestamptz)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    SELECT CASE s.code WHEN 'timeout' THEN 'timeout' ELSE 'answered' END, s.result::text, s.at
      INTO state, value, at
      FROM windlass.step s WHERE s.job = p_job AND s.name = p_name;
END $$;

-- Whether a job that is put off waits for signals, by what was asked under this claim, and for how long:
-- never beyond its first timeout, and not at all where a signal is there.
-- Callers: finish_others, put_off, within the settings of finish. May call: worker. Plan: the caller's. Lock:
-- none. Whoever suspends a job leaves a note for it.
CREATE OR REPLACE FUNCTION windlass.suspension(
    p_job bigint, p_claim bigint, p_delay float8, OUT waits boolean, OUT delay float8)
LANGUAGE plpgsql AS $$
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
    END IF;
END $$;

-- ==== Statements that the store sends ====

-- :waits
-- What jobs wait for now, newest first: of one job, or behind a place in the list of all.
-- Callers: the store's waits. Lock: none. Runs that went another way have left rows, too: these are few.
SELECT w.job, w.no AS number, w.name, w.signal, w.shape, date_part('epoch', w.at) AS since,
       date_part('epoch', w.until) AS until, d.task, d.queue
  FROM windlass.wait w
 CROSS JOIN LATERAL (SELECT x.task, x.queue FROM windlass.deferred x
                      WHERE x.id = w.job AND x.suspended = w.claim LIMIT 1) AS d
 WHERE ($1::bigint IS NULL OR w.job = $1) AND ($2::bigint IS NULL OR w.no < $2)
   AND ($3::text IS NULL OR w.signal = $3)
 ORDER BY w.no DESC LIMIT $4
