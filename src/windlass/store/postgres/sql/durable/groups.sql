-- Groups of jobs [W4]. The job that ends a group waits in deferred for the jobs of the group, by the edges of
-- after_edge, and for itself while the group is open.

-- ==== Adding and closing ====

-- Adds jobs to a group: its end comes after them, too. Refuses where the group is not open.
-- Callers: the store, after it has enqueued them in the same transaction. May call: worker, producer.
-- Lock: the row of the group's end FOR KEY SHARE until the transaction ends, which close_group waits for, and
-- which whoever serves edges passes over; ACCESS SHARE on claim, as in check_after.
CREATE OR REPLACE FUNCTION windlass.add_to_group(p_group bigint, p_jobs bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
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
    WITH added AS (
        INSERT INTO windlass.group_job (group_end, job)
        SELECT p_group, u.id FROM (SELECT x.id, min(x.i) AS i FROM unnest(p_jobs) WITH ORDINALITY AS x (id, i)
                                    WHERE x.id > 0 GROUP BY x.id) AS u
         ORDER BY u.i
        ON CONFLICT DO NOTHING RETURNING job)
    SELECT array_agg(a.job) INTO v_on FROM added a;
    SELECT array_agg(c.on_job), array_agg(c.state) INTO v_on, v_states
      FROM windlass.check_after(v_on, true) AS c WHERE c.state IS DISTINCT FROM 'succeeded';
    IF v_on IS NOT NULL THEN
        PERFORM windlass.add_edges(array_fill(1, ARRAY[cardinality(v_on)]), v_on, v_states, ARRAY[p_group],
                                   ARRAY['after']);
    END IF;
END $$;

-- Lets a group take no more jobs, and its end go on where none of them is left. False: it was not open.
-- Callers: the store. May call: worker, producer. Lock: the row of the group's end, until the transaction
-- ends; transactions that add to it are waited for.
CREATE OR REPLACE FUNCTION windlass.close_group(p_group bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
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
-- Callers: expire, which holds ACCESS SHARE on claim, as for expire_steps. May call: worker. Lock: the row
-- that says how far it has come, without waiting.
CREATE OR REPLACE FUNCTION windlass.expire_groups(p_limit int) RETURNS int
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET jit = off AS $$
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

-- ==== Statements that the store sends ====

-- :group_jobs
-- The jobs of a group in the order in which they were added, those behind one of them, or all.
-- Callers: the store's group_jobs. Lock: none.
SELECT g.job FROM windlass.group_job g
 WHERE g.group_end = $1
   AND g.no > CASE $2::bigint WHEN 0 THEN 0
              ELSE (SELECT x.no FROM windlass.group_job x WHERE x.group_end = $1 AND x.job = $2) END
 ORDER BY g.no LIMIT $3

-- :group_counts
-- How many jobs of a group are in each state.
-- Callers: the store's group_counts. Lock: none. Each is looked up by its index.
SELECT coalesce(s.state, 'gone') AS state, count(*) AS n
  FROM windlass.group_job g
  LEFT JOIN LATERAL (SELECT x.state FROM windlass.standing_of(g.job) AS x LIMIT 1) AS s ON true
 WHERE g.group_end = $1 GROUP BY 1
