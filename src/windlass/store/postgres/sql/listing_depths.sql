-- How many jobs there are: in lanes, all at once, and beside them; in queues, which is depth(), and of tasks.
-- depth() costs a probe for each lane, and for each queue with jobs aside no more than a thousand entries of
-- an index. What it is made of is STABLE: within it, all see the same moment [S5].

-- ==== Lanes ====

-- How deep every lane is, as lane_depth says it, in one statement [M1].
-- Callers: depth. May call: worker, reader. Plan: generic, pinned, ordered. Lock: none.
-- A standby sees sequences ahead of what they were, so there each lane is looked at by itself.
CREATE OR REPLACE FUNCTION windlass.lane_depths() RETURNS TABLE (lane int, queue text, n bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    IF pg_is_in_recovery() THEN
        RETURN QUERY SELECT l.id, l.queue, windlass.lane_depth(l.id) FROM windlass.lane l;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT l.id, l.queue,
           CASE WHEN c.hi IS NULL THEN windlass.lane_depth(l.id)  -- which says what is wrong
                ELSE coalesce(pg_sequence_last_value(l.position), 0) - c.hi + c.holes - c.ahead_n END
      FROM windlass.lane l
      LEFT JOIN LATERAL (SELECT x.hi, x.holes, x.ahead_n FROM windlass.claim x WHERE x.lane = l.id
                          ORDER BY x.id DESC LIMIT 1) AS c ON true;
END $$;

-- ==== Aside ====

-- How many jobs of each queue stand aside, by kind: held, free (held, but by no gate), scheduled, retrying
-- and dead. Up to a thousand are counted. Beyond that it is what keep_depths counted last, and an estimate;
-- with p_exact, or where that is ten minutes old, all are counted [M1].
-- Callers: depth, keep_depths. May call: worker, reader. Plan: free. Lock: none.
CREATE OR REPLACE FUNCTION windlass.aside_counts(p_exact boolean DEFAULT false)
RETURNS TABLE (kind text, queue text, n bigint, estimate boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    FOR kind, queue IN
        SELECT k.kind, q.queue
          FROM (VALUES ('held', 'held'), ('held', 'free'), ('deferred', 'scheduled'),
                       ('deferred', 'retrying'), ('dead', 'dead')) AS k (place, kind)
          JOIN windlass.aside_queues() AS q ON q.place = k.place LOOP
        n := windlass.count_aside(kind, queue, 1001);
        estimate := false;
        IF n > 1000 THEN
            IF NOT p_exact THEN
                SELECT greatest(c.n, aside_counts.n), true INTO n, estimate FROM windlass.aside_count c
                 WHERE c.kind = aside_counts.kind AND c.queue = aside_counts.queue
                   AND c.at BETWEEN windlass.now() - interval '10 minutes' AND windlass.now();
            END IF;
            IF p_exact OR NOT FOUND THEN
                n := windlass.count_aside(kind, queue, NULL);
                estimate := false;
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- The queues that have jobs in a table of jobs aside: a probe for each, however many jobs that are.
-- Callers: aside_counts. May call: worker, reader. Plan: generic, pinned, ordered. Lock: none.
-- From indexes alone, as enable_indexscan = off asks, so that no other index will do [rule 8]. The same in
-- count_aside.
CREATE OR REPLACE FUNCTION windlass.aside_queues() RETURNS TABLE (place text, queue text)
LANGUAGE plpgsql STABLE SET enable_indexscan = off AS $$
BEGIN
    RETURN QUERY
    WITH RECURSIVE h (queue) AS (
        (SELECT x.queue FROM windlass.held x ORDER BY x.queue LIMIT 1)
        UNION ALL
        SELECT (SELECT x.queue FROM windlass.held x WHERE x.queue > h.queue ORDER BY x.queue LIMIT 1)
          FROM h WHERE h.queue IS NOT NULL),
    d (queue) AS (
        (SELECT x.queue FROM windlass.deferred x ORDER BY x.queue LIMIT 1)
        UNION ALL
        SELECT (SELECT x.queue FROM windlass.deferred x WHERE x.queue > d.queue ORDER BY x.queue LIMIT 1)
          FROM d WHERE d.queue IS NOT NULL),
    o (queue) AS (
        (SELECT x.queue FROM windlass.dead x ORDER BY x.queue LIMIT 1)
        UNION ALL
        SELECT (SELECT x.queue FROM windlass.dead x WHERE x.queue > o.queue ORDER BY x.queue LIMIT 1)
          FROM o WHERE o.queue IS NOT NULL)
    SELECT 'held', h.queue FROM h WHERE h.queue IS NOT NULL
     UNION ALL
    SELECT 'deferred', d.queue FROM d WHERE d.queue IS NOT NULL
     UNION ALL
    SELECT 'dead', o.queue FROM o WHERE o.queue IS NOT NULL;
END $$;

-- How many jobs of a queue stand aside in one way, counted up to p_most; NULL: all.
-- Callers: aside_counts. May call: worker, reader. Plan: generic, pinned, ordered. Lock: none.
CREATE OR REPLACE FUNCTION windlass.count_aside(p_kind text, p_queue text, p_most bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    -- The order is that of the index that is meant [rule 8].
    RETURN CASE p_kind
        WHEN 'held' THEN (SELECT count(*) FROM (SELECT FROM windlass.held x WHERE x.queue = p_queue
                                                 ORDER BY x.since LIMIT p_most) AS y)
        WHEN 'free' THEN (SELECT count(*) FROM (SELECT FROM windlass.held x
                                                 WHERE x.queue = p_queue AND x.fair_key IS NOT NULL
                                                 ORDER BY x.priority, windlass.abilities_of(x.options),
                                                          x.fair_key, x.turn LIMIT p_most) AS y)
        WHEN 'scheduled' THEN (SELECT count(*) FROM (SELECT FROM windlass.deferred x
                                                      WHERE x.queue BETWEEN p_queue AND p_queue
                                                        AND NOT x.retrying
                                                      ORDER BY x.queue, x.retrying LIMIT p_most) AS y)
        WHEN 'retrying' THEN (SELECT count(*) FROM (SELECT FROM windlass.deferred x
                                                     WHERE x.queue BETWEEN p_queue AND p_queue AND x.retrying
                                                     ORDER BY x.queue, x.retrying LIMIT p_most) AS y)
        ELSE (SELECT count(*) FROM (SELECT FROM windlass.dead x WHERE x.queue = p_queue
                                     ORDER BY x.died_at LIMIT p_most) AS y) END;
END $$;

-- Counts the jobs aside of queues that have more than a thousand of a kind, for aside_counts.
-- Callers: the store's count_ends, the less often the longer it takes. May call: worker. Plan: free. Lock:
-- the rows of aside_count, which only this writes; another one at the same time does nothing.
CREATE OR REPLACE FUNCTION windlass.keep_depths() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF pg_try_advisory_xact_lock(('windlass.aside_count'::regclass::oid::bigint - 2147483648)::int, 0) THEN
        INSERT INTO windlass.aside_count AS k (kind, queue, n, at)
        SELECT c.kind, c.queue, c.n, windlass.now() FROM windlass.aside_counts(true) AS c WHERE c.n > 1000
        ON CONFLICT (kind, queue) DO UPDATE SET n = excluded.n, at = excluded.at;
        DELETE FROM windlass.aside_count k WHERE k.at < windlass.now() - interval '1 hour';
    END IF;
END $$;

-- ==== Queues and tasks ====

-- Counts per queue without scanning the logs [M1]; estimate: of something more than a thousand stand aside,
-- and that is what was counted some seconds ago.
-- Callers: users, the store. May call: worker, reader. Plan: pinned. Lock: none.
-- ready: by position, so O(lanes), with jobs aside and parts that are not offered yet; free: what neither a
-- gate nor the `parallel` of a parent holds back. running: from the claims of workers that are not settled,
-- above their floor. OFFSET 0 is a fence [rule 8]: without it the planner may read every claim and join the
-- workers to them.
CREATE OR REPLACE FUNCTION windlass.depth()
RETURNS TABLE (queue text, ready bigint, running bigint, scheduled bigint, retrying bigint, dead bigint,
               oldest timestamptz, pending_parts bigint, free bigint, estimate boolean)
LANGUAGE plpgsql SECURITY DEFINER ROWS 20 AS $$
BEGIN
    RETURN QUERY
    WITH waiting AS (
        SELECT l.queue, sum(l.n) AS n,
               min(CASE WHEN l.n > 0 THEN windlass.lane_head(l.lane, 100) END) AS oldest
          FROM windlass.lane_depths() AS l GROUP BY l.queue),
    aside AS MATERIALIZED (
        SELECT c.queue, sum(c.n) FILTER (WHERE c.kind = 'held') AS n,
               sum(c.n) FILTER (WHERE c.kind = 'free') AS free,
               sum(c.n) FILTER (WHERE c.kind = 'scheduled') AS scheduled,
               sum(c.n) FILTER (WHERE c.kind = 'retrying') AS retrying,
               sum(c.n) FILTER (WHERE c.kind = 'dead') AS dead, bool_or(c.estimate) AS estimate,
               (SELECT h.since FROM windlass.held h WHERE h.queue = c.queue
                 ORDER BY h.since LIMIT 1) AS oldest
          FROM windlass.aside_counts() AS c GROUP BY c.queue),
    family AS (
        SELECT p.queue, sum(p.pending) AS n, min(p.created_at) AS oldest,
               sum(CASE WHEN g.closed THEN 0
                        ELSE greatest(least(p.pending, p.parallel - p.out), 0) END) AS free
          FROM windlass.parent p
         CROSS JOIN LATERAL (
             SELECT EXISTS (SELECT FROM windlass.part t
                             CROSS JOIN LATERAL (SELECT FROM windlass.held h
                                                  WHERE h.id = t.job AND h.gate IS NOT NULL OFFSET 0) AS h
                             WHERE t.parent = p.id AND t.state = 'out' AND NOT t.claimed) AS closed
             OFFSET 0) AS g
         WHERE p.state = 'waiting' AND p.pending > 0 AND NOT p.cancelling GROUP BY p.queue),
    busy AS (
        SELECT l.queue, sum(h.n) AS n
          FROM windlass.worker_life w
          JOIN windlass.worker_heartbeat b ON b.id = w.id
         CROSS JOIN LATERAL (SELECT c.lane, windlass.count_seqs(windlass.unfinished(c.id, c.seqs)) AS n
                               FROM windlass.claim c
                              WHERE c.worker = w.id AND c.n > 0 AND c.worker <> 0 AND c.id >= b.floor
                             OFFSET 0) AS h
          JOIN windlass.lane l ON l.id = h.lane
         WHERE NOT w.settled GROUP BY l.queue),
    gone AS (
        SELECT p.queue, count(*) AS n FROM windlass.parent p WHERE p.state = 'dead' GROUP BY p.queue)
    SELECT q.name, (coalesce(w.n, 0) + coalesce(a.n, 0) + coalesce(f.n, 0))::bigint, coalesce(b.n, 0)::bigint,
           coalesce(a.scheduled, 0)::bigint, coalesce(a.retrying, 0)::bigint,
           (coalesce(a.dead, 0) + coalesce(g.n, 0))::bigint,
           least(w.oldest, a.oldest, f.oldest), coalesce(f.n, 0)::bigint,
           (coalesce(w.n, 0) + coalesce(a.free, 0) + coalesce(f.free, 0))::bigint, coalesce(a.estimate, false)
      FROM (SELECT name FROM windlass.queue UNION SELECT a.queue FROM aside a
             WHERE a.scheduled IS NOT NULL) AS q
      LEFT JOIN waiting w ON w.queue = q.name
      LEFT JOIN aside a ON a.queue = q.name
      LEFT JOIN family f ON f.queue = q.name
      LEFT JOIN busy b ON b.queue = q.name
      LEFT JOIN gone g ON g.queue = q.name
     ORDER BY q.name COLLATE "C";
END $$;

-- How often jobs were offered in each queue [M1]: numbers drawn in its lanes since they were declared, so it
-- never falls; without those that epochs have passed over. Apart from `depth`, whose columns users rely on.
-- Callers: the store. May call: worker, reader. Plan: free. Lock: none.
CREATE OR REPLACE FUNCTION windlass.offered() RETURNS TABLE (queue text, n bigint)
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    RETURN QUERY
    SELECT l.queue, sum(coalesce(pg_sequence_last_value(l.position), 0) - l.skipped)::bigint
      FROM windlass.lane l GROUP BY l.queue;
END $$;

-- How many jobs of each task are ready, by queue: those in lanes, up to p_most a lane, and those aside, up to
-- p_most a queue [M1]. `estimate`: there are more in that queue, of whatever task.
-- Callers: users, the store; not on any job's path, and not cheap. May call: worker, reader.
-- Plan: free. Lock: none.
CREATE OR REPLACE FUNCTION windlass.task_depths(p_most int)
RETURNS TABLE (queue text, task text, ready bigint, estimate boolean)
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    RETURN QUERY
    SELECT x.queue, x.task, sum(x.n)::bigint, bool_or(bool_or(x.capped)) OVER (PARTITION BY x.queue)
      FROM (SELECT l.queue, t.* FROM windlass.lane l CROSS JOIN LATERAL windlass.lane_tasks(l.id, p_most) AS t
             UNION ALL
            SELECT q.name, t.* FROM windlass.queue q CROSS JOIN LATERAL windlass.held_tasks(q.name,
                    p_most) AS t) AS x
     GROUP BY x.queue, x.task HAVING sum(x.n) > 0 ORDER BY x.queue COLLATE "C", x.task COLLATE "C";
END $$;

-- How many jobs of each task wait in a lane, of its first p_most; `capped`: there are more.
-- Callers: task_depths. May call: worker. Plan: pinned, ordered. Lock: none.
-- An index scan beyond the cursor, after what has appeared in holes: while a queue is paused, nobody else
-- looks there.
CREATE OR REPLACE FUNCTION windlass.lane_tasks(p_lane int, p_most int)
RETURNS TABLE (task text, n bigint, capped boolean)
LANGUAGE plpgsql AS $$
DECLARE
    c       windlass.claim := windlass.cursor_of(p_lane);
    v_ahead int8multirange := windlass.gather_seqs(c.ahead, c.ahead_spilled);
    v_holes int8multirange := '{}';
    v_deep  boolean := windlass.lane_depth(p_lane) > p_most;
BEGIN
    IF c.holes > 0 THEN
        v_holes := windlass.gather_seqs(coalesce(c.young, '{}') + coalesce(c.old, '{}'), c.spilled);
    END IF;
    RETURN QUERY
    SELECT f.task, count(*), v_deep AND sum(count(*)) OVER () >= p_most
      FROM ((SELECT w.task
               FROM unnest(v_holes) AS hole (span)
              CROSS JOIN LATERAL (SELECT r.task FROM windlass.ready r
                                   WHERE r.lane = p_lane AND r.seq >= lower(hole.span)
                                     AND r.seq < upper(hole.span)
                                   ORDER BY r.seq LIMIT p_most) AS w
              LIMIT p_most)
             UNION ALL
            (SELECT r.task FROM windlass.ready r
              WHERE r.lane = p_lane AND r.seq > c.hi AND NOT r.seq <@ v_ahead ORDER BY r.seq LIMIT p_most)
             LIMIT p_most) AS f
     GROUP BY f.task;
END $$;

-- How many jobs of each task wait aside in a queue, of the p_most that have waited longest; `capped`: there
-- are more.
-- Callers: task_depths. May call: worker. Plan: pinned, ordered. Lock: none.
CREATE OR REPLACE FUNCTION windlass.held_tasks(p_queue text, p_most int)
RETURNS TABLE (task text, n bigint, capped boolean)
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT f.task, count(*) FILTER (WHERE f.i <= p_most), max(max(f.i)) OVER () > p_most
      FROM (SELECT h.task, row_number() OVER () AS i
              FROM (SELECT x.task FROM windlass.held x WHERE x.queue = p_queue ORDER BY x.since
                     LIMIT p_most + 1) AS h) AS f
     GROUP BY f.task;
END $$;

-- ==== Statements that the store sends ====

-- :depths
-- Counts per queue, how long the oldest has waited, how often jobs were offered, and how many stand in lanes
-- whose jobs need abilities, by these.
-- Callers: the store's depth. Lock: none.
SELECT d.queue, d.ready, d.running, d.scheduled, d.retrying, d.dead, coalesce(o.n, 0) AS offered,
       d.pending_parts, d.free, d.estimate,
       (SELECT json_object_agg(n.abilities, n.n)
          FROM (SELECT l.abilities, sum(windlass.lane_depth(l.id)) AS n FROM windlass.lane l
                 WHERE l.queue = d.queue AND l.abilities <> '' GROUP BY l.abilities) AS n
         WHERE n.n > 0)::text AS needs,
       CASE WHEN d.oldest IS NOT NULL
            THEN greatest(date_part('epoch', windlass.now() - d.oldest), 0) END AS oldest
  FROM windlass.depth() AS d LEFT JOIN windlass.offered() AS o ON o.queue = d.queue
 ORDER BY d.queue COLLATE "C"
