-- Steps of jobs: what was done is not done again [W1].

-- ==== Writing ====

-- Makes a step of a job durable, fenced by worker and claim [C5], and returns it as it stands: where one of
-- this name is there already, that one. All NULL: the claim is not the worker's, or the job has ended.
-- p_sleep: it is a sleep, which lasts so many seconds from now on. remaining: the seconds left of a sleep.
-- Callers: the store, also inside a handler's own transaction. May call: worker. Lock: the life row FOR KEY
-- SHARE, see worker_fence; a second writer of the same step waits for the first, and both are of one worker.
CREATE OR REPLACE FUNCTION windlass.save_step(
    p_worker bigint, p_job bigint, p_lane int, p_claim bigint, p_seq bigint, p_name text, p_code text,
    p_attempt int, p_result text, p_sleep float8,
    OUT name text, OUT result json, OUT code text, OUT attempt smallint, OUT remaining float8,
    OUT at timestamptz, OUT added boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_until timestamptz := CASE WHEN p_sleep IS NOT NULL THEN windlass.in_seconds(p_sleep) END;
BEGIN
    PERFORM windlass.worker_fence(p_worker, true);
    PERFORM FROM windlass.claim c
      WHERE c.lane = p_lane AND c.id = p_claim AND c.worker = p_worker
        AND windlass.unfinished(c.id, c.seqs) @> p_seq;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    INSERT INTO windlass.step AS s (job, no, at, until, attempt, name, code, result)
    VALUES (p_job, nextval('windlass.step_no'), windlass.now(), v_until, p_attempt, p_name, p_code,
            p_result::json)
    ON CONFLICT DO NOTHING;
    added := FOUND;
    SELECT s.name, s.result, s.code, s.attempt, date_part('epoch', s.until - windlass.now()), s.at
      INTO name, result, code, attempt, remaining, at
      FROM windlass.step s WHERE s.job = p_job AND s.name = p_name;
END $$;

-- ==== Forgetting ====

-- One bounded step: removes the steps of jobs that the store no longer knows. Looks at up to p_limit jobs,
-- and goes on there the next time. Returns how many jobs' steps it removed.
-- Callers: expire, which holds ACCESS SHARE on claim, so that its snapshot is younger than any rotation that
-- moved a job. May call: worker. Lock: the row that says how far it has come, without waiting.
CREATE OR REPLACE FUNCTION windlass.expire_steps(p_limit int) RETURNS int
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET jit = off AS $$
DECLARE
    v_from bigint;
    v_job  bigint;
    v_gone bigint[] := '{}';
    v_seen int := 0;
BEGIN
    SELECT k.job INTO v_from FROM windlass.step_look k FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    v_job := v_from;
    LOOP
        SELECT s.job INTO v_job FROM windlass.step s WHERE s.job > v_job ORDER BY s.job LIMIT 1;
        EXIT WHEN NOT FOUND OR v_seen >= p_limit;
        v_seen := v_seen + 1;
        IF (SELECT x.state FROM windlass.standing_of(v_job) AS x) IS NULL THEN
            v_gone := v_gone || v_job;
        END IF;
    END LOOP;
    DELETE FROM windlass.step s WHERE s.job = ANY (v_gone);
    UPDATE windlass.step_look k SET job = coalesce(v_job - 1, 0) WHERE v_from > 0 OR v_seen > 0;
    RETURN cardinality(v_gone);
END $$;

-- ==== Statements that the store sends ====

-- :steps
-- The steps of a job.
-- Callers: the store's steps. Lock: none.
SELECT s.name, s.result, s.code, s.attempt, date_part('epoch', s.until - windlass.now()) AS remaining, s.at
  FROM windlass.step s WHERE s.job = $1 ORDER BY s.at, s.no
