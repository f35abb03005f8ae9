-- Steps of jobs: what was done is not done again [W1].

-- ==== Writing ====

-- When a step is written of which a call that began at p_at carries so many before it: a microsecond apart,
-- which is less than it takes to write one. So steps of one job have an order, and those of one call differ.
-- Callers: save_steps, end_waits. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.step_at(p_at timestamptz, p_place bigint) RETURNS timestamptz
LANGUAGE sql STABLE AS $$ SELECT p_at + p_place * interval '1 microsecond' $$;

-- The place in its call of a step that was written then.
-- Callers: save_steps, end_waits. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.step_place(p_at timestamptz, p_written timestamptz) RETURNS int
LANGUAGE sql STABLE AS $$ SELECT (date_part('microseconds', p_written - p_at))::int $$;

-- Makes steps of jobs durable, fenced by worker and claim [C5]. Of each step: p_of says which of the claims
-- its job is of, p_sleeps that it is a sleep, which lasts so many seconds from now on. added: the places,
-- from 1, of those that were written. refused: of those whose claim is not the worker's, or whose job has
-- ended; the others were there already, and stand. at: when they were written. Callers: the store, also
-- inside a handler's own transaction. May call: worker. Plan: pinned, ordered. Lock: the life row FOR KEY
-- SHARE, see worker_fence; a second writer of the same step waits for the first, and both are of one worker.
-- That a claim holds a job is looked up once for each claim.
CREATE OR REPLACE FUNCTION windlass.save_steps(
    p_worker bigint, p_lanes int[], p_claims bigint[], p_of int[], p_seqs bigint[], p_jobs bigint[],
    p_names text[], p_codes text[], p_attempts int[], p_results text[], p_sleeps float8[],
    OUT added int[], OUT refused int[], OUT at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_left int8multirange[] := '{}';
    v_one  int8multirange;
BEGIN
    PERFORM windlass.worker_fence(p_worker, true);
    FOR i IN 1 .. cardinality(p_claims) LOOP
        SELECT windlass.unfinished(c.id, c.seqs) INTO v_one FROM windlass.claim c
         WHERE c.lane = p_lanes[i] AND c.id = p_claims[i] AND c.worker = p_worker;
        v_left := v_left || coalesce(v_one, '{}');
    END LOOP;
    at := windlass.now();
    WITH written AS (
        INSERT INTO windlass.step AS s (job, at, until, attempt, name, code, result)
        SELECT u.job, windlass.step_at(save_steps.at, u.place),
               CASE WHEN u.sleep IS NOT NULL THEN windlass.in_seconds(u.sleep) END, u.attempt, u.name, u.code,
               u.result::json
          FROM unnest(p_of, p_seqs, p_jobs, p_names, p_codes, p_attempts, p_results, p_sleeps)
               WITH ORDINALITY AS u (of, seq, job, name, code, attempt, result, sleep, place)
         WHERE v_left[u.of] @> u.seq
        ON CONFLICT DO NOTHING RETURNING s.at)
    SELECT array_agg(windlass.step_place(save_steps.at, w.at)) INTO added FROM written w;
    IF coalesce(cardinality(added), 0) < cardinality(p_jobs) THEN
        refused := ARRAY(SELECT u.place FROM unnest(p_of, p_seqs) WITH ORDINALITY AS u (of, seq, place)
                          WHERE NOT v_left[u.of] @> u.seq);
    END IF;
END $$;

-- ==== Reading ====

-- The steps of jobs that were claimed just now, in order, as JSON: [[job, name, result, code, attempt,
-- seconds that are left of a sleep, written at], ...]. NULL: these are too many, and each handler reads its
-- own.
-- Callers: claim, for jobs that were offered again or have an id of their own. May call: worker. Plan:
-- generic, pinned. Lock: none: nobody writes a step of a job that is claimed but its worker.
-- So a handler that goes on behind a step or a signal needs no call of its own for them.
CREATE OR REPLACE FUNCTION windlass.steps_of(p_jobs bigint[]) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    c_most CONSTANT int := 262144;  -- bytes of results, as they are stored
    v_now  timestamptz := windlass.now();
BEGIN
    -- One statement, since a handler waits for it: the second part is only run for what is not too much.
    RETURN (SELECT CASE WHEN f.size IS NULL THEN '[]'
                        WHEN f.size <= c_most
                        THEN (SELECT json_agg(json_build_array(s.job, s.name, s.result, s.code, s.attempt,
                                                               date_part('epoch', s.until - v_now),
                                                               date_part('epoch', s.at))
                                              ORDER BY s.at, s.name)
                                FROM windlass.step s WHERE s.job = ANY (p_jobs))::text END
              FROM (SELECT sum(pg_column_size(s.result) + 100) AS size
                      FROM windlass.step s WHERE s.job = ANY (p_jobs)) AS f);
END $$;

-- ==== Forgetting ====

-- Removes the steps of jobs that are gone, and what they wait for; returns how many steps.
-- Callers: delete, delete_dead, delete_ended, end_in_lane, end_aside, expire_steps. May call: worker. Plan:
-- pinned. Lock: the rows, which nobody else changes.
CREATE OR REPLACE FUNCTION windlass.drop_steps(p_jobs bigint[]) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    v_gone int;
BEGIN
    DELETE FROM windlass.step s WHERE s.job = ANY (p_jobs);
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    PERFORM windlass.drop_signals(p_jobs);
    RETURN v_gone;
END $$;

-- One bounded step: removes the steps of jobs that the store no longer knows. Reads a tenth of p_pages pages
-- of the table, and up to five times p_pages while hardly a step there is old, and goes on there the next
-- time. A step that is younger than the retention is passed over: its job is there, or was deleted with its
-- steps. Of the others those that sleep are known at once, and the rest are looked up. A part that is to run
-- again has its last job's. Returns how many steps it removed. Callers: expire, which holds ACCESS SHARE on
-- claim, so that its snapshot is younger than any rotation that moved a job. May call: worker. Plan: pinned.
-- Lock: the row that says how far it has come, without waiting.
CREATE OR REPLACE FUNCTION windlass.expire_steps(p_pages int) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    c_pages CONSTANT int := greatest(p_pages / 10, 1);
    v_from  bigint;
    v_ends  bigint;
    v_old   bigint[];
    v_gone  bigint[];
    v_seen  int := 0;
    v_n     int := 0;
BEGIN
    SELECT k.page INTO v_from FROM windlass.step_look k FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    v_ends := pg_relation_size('windlass.step') / current_setting('block_size')::bigint;
    IF v_ends = 0 THEN
        RETURN 0;
    END IF;
    v_from := CASE WHEN v_from < v_ends THEN v_from ELSE 0 END;
    FOR v_look IN 1..50 LOOP
        v_old := ARRAY(
            SELECT DISTINCT s.job FROM windlass.step s
             WHERE s.ctid >= format('(%s,0)', v_from)::tid
               AND s.ctid < format('(%s,0)', v_from + c_pages)::tid
               AND s.at < windlass.now() - make_interval(
                       secs => (SELECT m.retention FROM windlass.meta m WHERE m.single)));
        v_gone := ARRAY(SELECT o.job FROM unnest(v_old) AS o (job)
                         WHERE NOT EXISTS (SELECT FROM windlass.deferred d WHERE d.id = o.job OFFSET 0));
        v_gone := ARRAY(SELECT o.job FROM unnest(v_gone) AS o (job)
                         WHERE (SELECT x.state FROM windlass.standing_of(o.job) AS x) IS NULL
                           AND NOT EXISTS (SELECT FROM windlass.part t WHERE t.job = o.job OFFSET 0));
        IF v_gone <> '{}' THEN
            v_n := v_n + windlass.drop_steps(v_gone);
        END IF;
        v_from := v_from + c_pages;
        v_seen := v_seen + cardinality(v_old);
        EXIT WHEN v_from >= v_ends OR v_seen >= p_pages;
    END LOOP;
    UPDATE windlass.step_look k SET page = v_from;
    RETURN v_n;
END $$;

-- ==== Statements that the store sends ====

-- :steps
-- The steps of a job.
-- Callers: the store's steps. Lock: none.
SELECT s.name, s.result, s.code, s.attempt, date_part('epoch', s.until - windlass.now()) AS "left", s.at
  FROM windlass.step s WHERE s.job = $1 ORDER BY s.at, s.name
