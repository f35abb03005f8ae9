-- One bounded step: offers deferred jobs that are due, earliest first. Answers with how many.
-- Callers: the store. Lock: the watermark row and the rows that are due, by trying only: somebody who has one of them locked
-- must not hold up the rest; those of declare_lane where a lane must be declared, for a second at most; then those of offer.
-- The watermark says: all that was due at (run_at, job) and visible in snapshot is gone from the table, or noted in
-- deferred_left because somebody had it locked. So the scan starts behind it and never meets its own dead rows again, whoever
-- holds a snapshot open; and a row that committed late, or was made due behind it, is found by its xid, which that snapshot
-- cannot see. What was left is tried again with each step, and forgotten when it is gone or due no more: whoever makes it
-- due again gives it a new xid.
CREATE OR REPLACE FUNCTION windlass.promote(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s'
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    c_last    CONSTANT bigint := 9223372036854775807;
    c_looks   CONSTANT int := 10;  -- how often a step looks further where it met locked rows
    w         windlass.deferred_watermark;
    s         record;              -- rows that were seen: places in the table, ids, queues, priorities
    g         record;
    v_now     timestamptz := windlass.now();
    v_was     timestamptz;
    v_seen    pg_snapshot;
    v_late    int;
    v_left    bigint[];
    v_got     tid[];
    v_mine    tid[] := '{}';
    v_found   boolean := false;
    v_busy    text[] := '{}';
    v_limited text[] := windlass.limited_tasks(NULL);
BEGIN
    PERFORM windlass.require_read_committed();
    SELECT * INTO w FROM windlass.deferred_watermark WHERE single FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    v_was := w.run_at;
    IF v_was > v_now THEN
        w.run_at := v_now;
        w.job := c_last;
    END IF;
    FOR v_look IN 0..c_looks LOOP
        IF v_look = 0 THEN
            -- Behind the watermark: the late ones by their xids, the one order that reads nothing else; then those that were left.
            v_left := ARRAY(SELECT l.id FROM windlass.deferred_left l WHERE l.id > w.retried ORDER BY l.id LIMIT c_looks * p_limit);
            WITH late AS MATERIALIZED (
                SELECT d.ctid AS place, d.id, d.run_at, d.queue, d.priority FROM windlass.deferred d
                 WHERE d.xid >= pg_snapshot_xmin(w.snapshot) AND NOT pg_visible_in_snapshot(d.xid, w.snapshot)
                   AND (d.run_at, d.id + 0) <= (w.run_at, w.job) AND d.replaces IS NULL
                   AND NOT EXISTS (SELECT FROM windlass.deferred_left l WHERE l.id = d.id OFFSET 0)
                 ORDER BY d.xid LIMIT p_limit),
            rest AS MATERIALIZED (
                SELECT d.* FROM unnest(v_left) AS l (id)
                 CROSS JOIN LATERAL (SELECT x.ctid AS place, x.id, x.run_at, x.queue, x.priority FROM windlass.deferred x
                                      WHERE x.id = l.id AND x.run_at <= v_now AND x.replaces IS NULL LIMIT 1) AS d)
            SELECT array_agg(x.place ORDER BY x.run_at, x.id) AS places, array_agg(x.id ORDER BY x.run_at, x.id) AS ids,
                   array_agg(x.queue ORDER BY x.run_at, x.id) AS queues, array_agg(x.priority ORDER BY x.run_at, x.id) AS priorities,
                   (SELECT count(*) FROM late) AS late, pg_current_snapshot() AS seen
              INTO s FROM (SELECT * FROM late UNION ALL SELECT * FROM rest) AS x;
            v_late := s.late;
            v_seen := s.seen;
            IF v_left <> '{}' THEN
                DELETE FROM windlass.deferred_left WHERE id = ANY (ARRAY(SELECT unnest(v_left) EXCEPT SELECT unnest(s.ids)));
            END IF;
        ELSE
            SELECT array_agg(x.place) AS places, array_agg(x.id) AS ids, array_agg(x.queue) AS queues,
                   array_agg(x.priority) AS priorities, max(x.run_at) AS last INTO s
              FROM (SELECT d.ctid AS place, d.id, d.run_at, d.queue, d.priority FROM windlass.deferred d
                     WHERE (d.run_at, d.id + 0) > (w.run_at, w.job) AND d.run_at <= v_now AND d.replaces IS NULL
                     ORDER BY d.run_at, d.id + 0 LIMIT p_limit - cardinality(v_mine)) AS x;
            IF coalesce(cardinality(s.ids), 0) < p_limit - cardinality(v_mine) THEN
                w.run_at := v_now;
                w.job := c_last;
            ELSE
                w.run_at := s.last;
                w.job := s.ids[cardinality(s.ids)];
            END IF;
        END IF;
        v_found := v_found OR s.ids IS NOT NULL;
        -- A lane that is not there is declared. Where somebody holds that up, its jobs are left.
        v_busy := v_busy || ARRAY(SELECT x.queue || '/' || x.priority
                                    FROM (SELECT DISTINCT u.queue, u.priority FROM unnest(s.queues, s.priorities) AS u (queue, priority)) AS x
                                   WHERE x.queue || '/' || x.priority <> ALL (v_busy) AND windlass.lane_try(x.queue, x.priority) IS NULL);
        v_got := ARRAY(SELECT d.ctid FROM unnest(s.places, s.queues, s.priorities) AS u (place, queue, priority)
                         JOIN windlass.deferred d ON d.ctid = u.place
                        WHERE v_busy = '{}' OR u.queue || '/' || u.priority <> ALL (v_busy)
                        LIMIT p_limit - cardinality(v_mine) FOR UPDATE OF d SKIP LOCKED);
        v_mine := v_mine || v_got;
        IF cardinality(s.ids) > cardinality(v_got) THEN
            INSERT INTO windlass.deferred_left (id)
            SELECT u.id FROM unnest(s.places, s.ids) AS u (place, id)
             WHERE NOT EXISTS (SELECT FROM unnest(v_got) AS o (place) WHERE o.place = u.place)
            ON CONFLICT DO NOTHING;
        END IF;
        IF v_look = 0 AND cardinality(v_left) = c_looks * p_limit THEN
            w.retried := CASE WHEN cardinality(v_mine) < p_limit THEN v_left[c_looks * p_limit] ELSE w.retried END;
        ELSIF v_look = 0 THEN
            w.retried := 0;
        END IF;
        EXIT WHEN cardinality(v_mine) >= p_limit OR w.job = c_last AND v_look > 0;
    END LOOP;
    -- A job with a fair key takes a new turn, behind its key's others; one with gates goes to the end of the line of the first
    -- it has no pass of.
    FOR g IN
        WITH gone AS MATERIALIZED (
            DELETE FROM windlass.deferred d USING unnest(v_mine) AS u (place) WHERE d.ctid = u.place RETURNING d.*),
        aside AS (
            SELECT o.*, windlass.next_gate(o.id, o.queue, o.task, o.options) AS gate, o.options ->> 'fair_key' AS fair
              FROM gone o WHERE windlass.may_be_gated(o.task, o.options::text, v_limited)),
        put AS (
            INSERT INTO windlass.held (id, since, enqueued_at, queue, priority, attempt, deaths, gate, fair_key, task, payload, options)
            SELECT a.id, v_now, a.enqueued_at, a.queue, a.priority, a.attempt, a.deaths, a.gate,
                   CASE WHEN a.gate IS NULL THEN a.fair END, a.task, a.payload, a.options
              FROM aside a WHERE a.gate IS NOT NULL OR a.fair IS NOT NULL
            RETURNING id, gate),
        noted AS (INSERT INTO windlass.stirred_gate (gate) SELECT DISTINCT gate FROM put WHERE gate IS NOT NULL)
        SELECT o.queue, o.priority, count(*)::int AS n, array_agg(o.task) AS tasks, array_agg(o.payload::text) AS payloads,
               array_agg(o.options::text) AS options, array_agg(o.id) AS ids, array_agg(o.attempt) AS attempts,
               array_agg(o.deaths) AS deaths, array_agg(o.enqueued_at) AS enqueued
          FROM gone o WHERE o.id <> ALL (ARRAY(SELECT id FROM put))
         GROUP BY o.queue, o.priority
    LOOP
        PERFORM windlass.offer(windlass.lane_for(g.queue, g.priority), g.n, g.tasks, g.payloads, g.options, g.ids,
                               g.attempts, g.deaths, g.enqueued);
    END LOOP;
    -- Where the step was too small for the late ones, they stay late. An idle watermark moves every 5 s, to leave few dead rows of
    -- its own.
    IF v_found OR w.snapshot IS NULL OR v_now NOT BETWEEN v_was AND v_was + interval '5 s' THEN
        UPDATE windlass.deferred_watermark SET run_at = w.run_at, job = w.job, retried = w.retried,
               snapshot = CASE WHEN v_late < p_limit THEN v_seen ELSE w.snapshot END
         WHERE single;
    END IF;
    RETURN cardinality(v_mine);
END $$;
