-- Groups of jobs [W4]. The job that ends a group waits in deferred for the jobs of the group, by the edges of
-- after_edge, and for itself while the group is open.

-- ==== Adding and closing ====

-- Adds jobs to a group: its end comes after them, too. Refuses where the group is not open.
-- Callers: the store, after it has enqueued them in the same transaction. May call: worker, producer.
-- Plan: pinned.
-- Lock: the row of the group's end FOR KEY SHARE until the transaction ends, which close_group waits for, and
-- which whoever serves edges passes over; then, where jobs are added that wait for others, advisory, (oid of
-- the group_job table, 0), until the transaction ends; ACCESS SHARE on claim, as in check_after.
CREATE OR REPLACE FUNCTION windlass.add_to_group(p_group bigint, p_jobs bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_on     bigint[];
    v_states text[];
BEGIN
    PERFORM FROM windlass.deferred d WHERE d.id = p_group AND NOT isfinite(d.run_at) FOR KEY SHARE;
    IF NOT FOUND OR NOT EXISTS (SELECT FROM windlass.after_edge e
                                 WHERE e.job = p_group AND e.on_job + 0 = p_group) THEN
        IF (SELECT s.state FROM windlass.standing_of(p_group) AS s) IS NULL THEN
            RAISE EXCEPTION 'there is no group %', p_group USING ERRCODE = 'WL010',
                HINT = 'It never existed, was deleted, or its retention has passed.';
        END IF;
        RAISE EXCEPTION 'group % takes no more jobs', p_group USING ERRCODE = 'WL024',
            HINT = 'It was closed, or its end was cancelled, retried or has come. Open another group.';
    END IF;
    IF EXISTS (SELECT FROM windlass.after_edge e WHERE e.job = ANY (p_jobs)) THEN
        -- Two that close a circle at the same moment would not see each other.
        PERFORM pg_advisory_xact_lock(('windlass.group_job'::regclass::oid::bigint - 2147483648)::int, 0);
        IF windlass.leads_to(p_jobs, p_group) THEN
            RAISE EXCEPTION 'a job that comes after group %, itself or by jobs between them, cannot be in '
                            'it: each would wait for the other', p_group
                USING ERRCODE = 'WL025', HINT = 'Use on_success() or on_end() for it.';
        END IF;
    END IF;
    WITH added AS (
        INSERT INTO windlass.group_job (group_end, job)
        SELECT p_group, u.id FROM (SELECT x.id, min(x.i) AS i FROM unnest(p_jobs) WITH ORDINALITY AS x (id, i)
                                    WHERE x.id > 0 GROUP BY x.id) AS u
         ORDER BY u.i
        ON CONFLICT (group_end, job) DO NOTHING RETURNING job)
    SELECT array_agg(a.job) INTO v_on FROM added a;
    SELECT array_agg(c.on_job), array_agg(c.state) INTO v_on, v_states
      FROM windlass.check_after(v_on, true) AS c WHERE c.state IS DISTINCT FROM 'succeeded';
    IF v_on IS NOT NULL THEN
        PERFORM windlass.add_edges(array_fill(1, ARRAY[cardinality(v_on)]), v_on, v_states, ARRAY[p_group],
                                   ARRAY['after']);
    END IF;
END $$;

-- Whether one of these jobs comes after another one, itself or by jobs between them. Walks from both, always
-- on the side where fewer jobs stand, first from the other one: where nobody comes after it there is nothing
-- to walk over, however long the chain of the jobs is, and where few do a group of a hundred thousand costs
-- nothing.
-- A circle goes through an open group. A job comes after jobs that are there when it is made, and nobody can
-- come after one that is not; only the end of a group gets edges later, to jobs that may come after it. So
-- jobs are looked at as they are added to a group, and only those that wait for others. Edges of a job that
-- waits no more say nothing: they are dropped later.
-- Callers: add_to_group, group_circles. May call: worker, reader. Plan: pinned. Lock: none.
CREATE OR REPLACE FUNCTION windlass.leads_to(p_jobs bigint[], p_on bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_from   bigint[] := p_jobs;             -- the last that were found that the jobs come after
    v_to     bigint[] := ARRAY[p_on];        -- and that come after the other one
    v_before bigint[] := p_jobs;             -- all of them
    v_behind bigint[] := ARRAY[p_on];
BEGIN
    LOOP
        IF EXISTS (SELECT unnest(v_before) INTERSECT SELECT unnest(v_behind)) THEN
            RETURN true;
        ELSIF v_from = '{}' OR v_to = '{}' THEN
            RETURN false;
        ELSIF cardinality(v_from) < cardinality(v_to) THEN
            v_from := ARRAY(SELECT e.on_job FROM windlass.after_edge e
                             WHERE e.job = ANY (v_from)
                               AND EXISTS (SELECT FROM windlass.deferred d
                                            WHERE d.id = e.job AND NOT isfinite(d.run_at) OFFSET 0)
                            EXCEPT SELECT unnest(v_before));
            v_before := v_before || v_from;
        ELSE
            v_to := ARRAY(SELECT e.job FROM windlass.after_edge e
                           WHERE e.on_job = ANY (v_to)
                             AND EXISTS (SELECT FROM windlass.deferred d
                                          WHERE d.id = e.job AND NOT isfinite(d.run_at) OFFSET 0)
                          EXCEPT SELECT unnest(v_behind));
            v_behind := v_behind || v_to;
        END IF;
    END LOOP;
END $$;

-- Lets groups that have seen a job fail, and wait still, wait for it again: it is being brought back.
-- Callers: retry, reopen_parent. May call: worker. Plan: pinned. Lock: the rows of the groups' ends FOR KEY
-- SHARE until the transaction ends, as in add_to_group; whoever serves an edge to one of them just now is
-- waited for.
CREATE OR REPLACE FUNCTION windlass.rejoin_groups(p_job bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_groups bigint[];
BEGIN
    v_groups := ARRAY(SELECT g.group_end FROM windlass.group_job g WHERE g.job = p_job AND g.failed
                      UNION SELECT e.job FROM windlass.after_edge e WHERE e.on_job = p_job);
    IF v_groups <> '{}' THEN
        v_groups := ARRAY(SELECT d.id FROM windlass.deferred d
                           WHERE d.id = ANY (v_groups) AND NOT isfinite(d.run_at) FOR KEY SHARE);
        WITH again AS (
            UPDATE windlass.group_job g SET failed = false
             WHERE g.group_end = ANY (v_groups) AND g.job = p_job AND g.failed RETURNING g.group_end)
        INSERT INTO windlass.after_edge (job, on_job) SELECT a.group_end, p_job FROM again a
        ON CONFLICT DO NOTHING;
    END IF;
END $$;

-- Lets a group take no more jobs, and its end go on where none of them is left. False: it was not open.
-- Callers: the store. May call: worker, producer. Plan: pinned. Lock: the row of the group's end, until the
-- transaction ends; transactions that add to it are waited for.
CREATE OR REPLACE FUNCTION windlass.close_group(p_group bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM windlass.require_read_committed();
    PERFORM FROM windlass.deferred d WHERE d.id = p_group AND NOT isfinite(d.run_at) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM windlass.after_edge e WHERE e.job = p_group AND e.on_job + 0 = p_group;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF NOT EXISTS (SELECT FROM windlass.after_edge e WHERE e.job = p_group) THEN
        -- As in serve_after: a new xid, since promote's watermark may have passed this moment already.
        UPDATE windlass.deferred d SET run_at = windlass.now(), xid = pg_current_xact_id()
         WHERE d.id = p_group;
        PERFORM windlass.wake('+');
    END IF;
    RETURN true;
END $$;

-- ==== Forgetting ====

-- One bounded step: removes the lists of groups whose end the store no longer knows, at most p_limit rows.
-- Looks at up to p_limit groups, and goes on there the next time. Returns how many rows.
-- Callers: expire, which holds ACCESS SHARE on claim, as for expire_steps. May call: worker. Plan: pinned,
-- ordered. Lock: the row that says how far it has come, without waiting.
CREATE OR REPLACE FUNCTION windlass.expire_groups(p_limit int) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    v_from  bigint;
    v_group bigint;
    v_seen  int := 0;
    v_rows  int;
    v_gone  int := 0;
BEGIN
    SELECT k.group_end INTO v_from FROM windlass.group_look k FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    v_group := v_from;
    LOOP
        SELECT g.group_end INTO v_group FROM windlass.group_job g WHERE g.group_end > v_group
         ORDER BY g.group_end LIMIT 1;
        EXIT WHEN NOT FOUND OR v_seen >= p_limit OR v_gone >= p_limit;
        v_seen := v_seen + 1;
        IF (SELECT s.state FROM windlass.standing_of(v_group) AS s) IS NULL THEN
            DELETE FROM windlass.group_job g
             WHERE g.group_end = v_group
               AND g.job = ANY (ARRAY(SELECT x.job FROM windlass.group_job x WHERE x.group_end = v_group
                                       ORDER BY x.job LIMIT p_limit - v_gone));
            GET DIAGNOSTICS v_rows = ROW_COUNT;
            v_gone := v_gone + v_rows;
            IF v_gone >= p_limit THEN
                v_group := v_group - 1;  -- there may be more of it
            END IF;
        END IF;
    END LOOP;
    UPDATE windlass.group_look k SET group_end = coalesce(v_group - 1, 0) WHERE v_from > 0 OR v_seen > 0;
    RETURN v_gone;
END $$;

-- Groups that wait for a job which comes after them, each with that job; p_limit at most.
-- Callers: the store's diagnosis. May call: worker, reader. Plan: pinned. Lock: none. One job that waits
-- after the other, by index: a join might begin with all edges there are [rule 8], and groups that have ended
-- are many.
CREATE OR REPLACE FUNCTION windlass.group_circles(p_limit int) RETURNS TABLE (group_end bigint, job bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT x.job INTO group_end FROM windlass.after_edge x ORDER BY x.job, (x.on_job + 0) LIMIT 1;
    WHILE group_end IS NOT NULL AND p_limit > 0 LOOP
        IF EXISTS (SELECT FROM windlass.group_job g WHERE g.group_end = group_circles.group_end)
           AND EXISTS (SELECT FROM windlass.after_edge x
                        WHERE x.on_job = group_circles.group_end
                          AND x.job + 0 <> group_circles.group_end) THEN
            SELECT min(x.on_job) INTO job FROM windlass.after_edge x
             WHERE x.job = group_circles.group_end AND x.on_job + 0 <> group_circles.group_end
               AND EXISTS (SELECT FROM windlass.after_edge y WHERE y.job = x.on_job OFFSET 0)
               AND windlass.leads_to(ARRAY[x.on_job], group_circles.group_end);
            IF job IS NOT NULL THEN
                p_limit := p_limit - 1;
                RETURN NEXT;
            END IF;
        END IF;
        SELECT x.job INTO group_end FROM windlass.after_edge x WHERE x.job > group_circles.group_end
         ORDER BY x.job, (x.on_job + 0) LIMIT 1;
    END LOOP;
END $$;

-- ==== Statements that the store sends ====

-- :group_jobs
-- The jobs of a group in the order in which they were added, those behind one of them, or all.
-- Callers: the store's group_jobs. Lock: none.
SELECT g.job FROM windlass.group_job g
 WHERE g.group_end = $1
   AND g.no > CASE $2::bigint WHEN 0 THEN 0
              ELSE (SELECT x.no FROM windlass.group_job x WHERE x.group_end = $1 AND x.job = $2) END
 ORDER BY g.no LIMIT $3

-- :circles
SELECT * FROM windlass.group_circles($1);

-- :group_counts
-- How many jobs of a group are in each state. The end of one that failed just now may be noted, and not yet
-- served.
-- Callers: the store's group_counts. Lock: none. Each is looked up by its index.
SELECT CASE WHEN s.state IS NOT NULL THEN s.state
            WHEN g.failed OR EXISTS (SELECT FROM windlass.ended_otherwise o WHERE o.job = g.job OFFSET 0)
            THEN 'deleted' ELSE 'gone' END AS state, count(*) AS n
  FROM windlass.group_job g
  LEFT JOIN LATERAL (SELECT x.state FROM windlass.standing_of(g.job) AS x LIMIT 1) AS s ON true
 WHERE g.group_end = $1 GROUP BY 1
