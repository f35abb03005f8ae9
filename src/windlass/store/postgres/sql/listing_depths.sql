-- How deep lanes are, all at once, and how many jobs wait beside them: what depth() is made of. It costs a
-- probe for each lane, and for each queue with jobs aside no more than a thousand entries of an index. All of
-- it is STABLE: within depth() it sees the same moment as the rest [S5].

-- ==== Lanes ====

-- How deep every lane is, as lane_depth says it, in one statement [M1].
-- Callers: depth. May call: worker, reader. Lock: none.
-- A standby sees sequences ahead of what they were, so there each lane is looked at by itself.
CREATE OR REPLACE FUNCTION windlass.lane_depths() RETURNS TABLE (lane int, queue text, n bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
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
-- Callers: depth, keep_depths. May call: worker, reader. Lock: none.
CREATE OR REPLACE FUNCTION windlass.aside_counts(p_exact boolean DEFAULT false)
RETURNS TABLE (kind text, queue text, n bigint, estimate boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
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
-- Callers: aside_counts. May call: worker, reader. Lock: none.
-- From indexes alone, so that no other index will do [rule 8]. The same in count_aside.
CREATE OR REPLACE FUNCTION windlass.aside_queues() RETURNS TABLE (place text, queue text)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_indexscan = off SET enable_sort = off
SET jit = off AS $$
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
-- Callers: aside_counts. May call: worker, reader. Lock: none.
CREATE OR REPLACE FUNCTION windlass.count_aside(p_kind text, p_queue text, p_most bigint) RETURNS bigint
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    -- The order is that of the index that is meant [rule 8].
    RETURN CASE p_kind
        WHEN 'held' THEN (SELECT count(*) FROM (SELECT FROM windlass.held x WHERE x.queue = p_queue
                                                 ORDER BY x.since LIMIT p_most) AS y)
        WHEN 'free' THEN (SELECT count(*) FROM (SELECT FROM windlass.held x
                                                 WHERE x.queue = p_queue AND x.fair_key IS NOT NULL
                                                 ORDER BY x.priority, x.fair_key, x.turn LIMIT p_most) AS y)
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
-- Callers: the store's count_ends, the less often the longer it takes. May call: worker. Lock: the rows of
-- aside_count, which only this writes; another one at the same time does nothing.
CREATE OR REPLACE FUNCTION windlass.keep_depths() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    IF pg_try_advisory_xact_lock(('windlass.aside_count'::regclass::oid::bigint - 2147483648)::int, 0) THEN
        INSERT INTO windlass.aside_count AS k (kind, queue, n, at)
        SELECT c.kind, c.queue, c.n, windlass.now() FROM windlass.aside_counts(true) AS c WHERE c.n > 1000
        ON CONFLICT (kind, queue) DO UPDATE SET n = excluded.n, at = excluded.at;
        DELETE FROM windlass.aside_count k WHERE k.at < windlass.now() - interval '1 hour';
    END IF;
END $$;
