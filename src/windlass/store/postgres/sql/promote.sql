-- One bounded step: offers deferred jobs that are due, earliest first. Answers with how many.
-- Callers: the store. Lock: the watermark row and the rows that are due, by trying only: a producer that replaces one
-- of them must not hold up the rest; then those of offer.
-- The watermark says: all that was due at run_at and visible in snapshot is gone from the table. So the scan
-- starts behind it and never meets its own dead rows again, whoever holds a snapshot open; and a row that
-- committed late, or was made due behind it, is found by its xid, which that snapshot cannot see.
CREATE OR REPLACE FUNCTION windlass.promote(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    w       windlass.deferred_watermark;
    g       record;
    v_now   timestamptz := windlass.now();
    v_low   timestamptz;
    v_late  int;
    v_fresh int;
    v_last  timestamptz;
    v_seen  pg_snapshot;
    v_rows  windlass.deferred[];
    v_held  timestamptz;
    v_late_held boolean;
    v_aside bigint[];
    v_lanes text[];
    v_limited text[] := windlass.limited_tasks(NULL);
BEGIN
    PERFORM windlass.require_read_committed();
    SELECT * INTO w FROM windlass.deferred_watermark FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    v_low := least(w.run_at, v_now);
    WITH late AS MATERIALIZED (
        SELECT d.id, d.run_at FROM windlass.deferred d
         WHERE d.xid >= pg_snapshot_xmin(w.snapshot) AND NOT pg_visible_in_snapshot(d.xid, w.snapshot)
           AND d.run_at <= v_low AND d.replaces IS NULL
         ORDER BY d.run_at, d.id LIMIT p_limit),
    fresh AS MATERIALIZED (
        SELECT d.id, d.run_at FROM windlass.deferred d
         WHERE d.run_at > v_low AND d.run_at <= v_now AND d.replaces IS NULL
         ORDER BY d.run_at, d.id LIMIT p_limit),
    mine AS MATERIALIZED (
        SELECT d.id FROM windlass.deferred d
         WHERE d.id IN (SELECT id FROM late UNION ALL SELECT id FROM fresh) FOR UPDATE SKIP LOCKED),
    gone AS (DELETE FROM windlass.deferred d WHERE d.id IN (SELECT id FROM mine) RETURNING d.*)
    SELECT (SELECT count(*) FROM late), (SELECT count(*) FROM fresh), (SELECT max(run_at) FROM fresh),
           pg_current_snapshot(), (SELECT array_agg(ROW (gone.*)::windlass.deferred ORDER BY run_at, id) FROM gone),
           EXISTS (SELECT FROM late WHERE id NOT IN (SELECT id FROM mine)),
           (SELECT min(run_at) FROM fresh WHERE id NOT IN (SELECT id FROM mine))
      INTO v_late, v_fresh, v_last, v_seen, v_rows, v_late_held, v_held;
    -- Where a lane has yet to be declared, and somebody's open transaction is about to do that, its jobs stay: with a new xid they
    -- are found again [S2].
    v_lanes := ARRAY(SELECT ROW (x.queue, x.priority)::text
                       FROM (SELECT DISTINCT u.queue, u.priority FROM unnest(v_rows) AS u) AS x
                      WHERE windlass.lane_try(x.queue, x.priority) IS NULL);
    IF v_lanes <> '{}' THEN
        INSERT INTO windlass.deferred (id, run_at, enqueued_at, priority, attempt, deaths, retrying, queue, task, payload, options,
                                       not_before)
        SELECT u.id, u.run_at, u.enqueued_at, u.priority, u.attempt, u.deaths, u.retrying, u.queue, u.task, u.payload, u.options,
               u.not_before
          FROM unnest(v_rows) AS u WHERE ROW (u.queue, u.priority)::text = ANY (v_lanes);
        v_rows := ARRAY(SELECT u FROM unnest(v_rows) AS u WHERE ROW (u.queue, u.priority)::text <> ALL (v_lanes));
    END IF;
    -- A job with a fair key takes a new turn, behind its key's others; one with gates goes to the end of the line of the first
    -- it has no pass of.
    WITH aside AS (
        SELECT u.*, windlass.next_gate(u.id, u.queue, u.task, u.options) AS gate, u.options ->> 'fair_key' AS fair
          FROM unnest(v_rows) AS u WHERE windlass.may_be_gated(u.task, u.options::text, v_limited)),
    put AS (
        INSERT INTO windlass.held (id, since, enqueued_at, queue, priority, attempt, deaths, gate, fair_key, task, payload, options)
        SELECT a.id, v_now, a.enqueued_at, a.queue, a.priority, a.attempt, a.deaths, a.gate,
               CASE WHEN a.gate IS NULL THEN a.fair END, a.task, a.payload, a.options
          FROM aside a WHERE a.gate IS NOT NULL OR a.fair IS NOT NULL ORDER BY a.run_at, a.id
        RETURNING id, gate),
    noted AS (INSERT INTO windlass.stirred_gate (gate) SELECT DISTINCT gate FROM put WHERE gate IS NOT NULL)
    SELECT array_agg(id) INTO v_aside FROM put;
    FOR g IN
        SELECT u.queue, u.priority, count(*)::int AS n, array_agg(u.task) AS tasks, array_agg(u.payload::text) AS payloads,
               array_agg(u.options::text) AS options, array_agg(u.id) AS ids, array_agg(u.attempt) AS attempts,
               array_agg(u.deaths) AS deaths, array_agg(u.enqueued_at) AS enqueued
          FROM (SELECT * FROM unnest(v_rows) ORDER BY run_at, id) AS u
         WHERE v_aside IS NULL OR u.id <> ALL (v_aside)
         GROUP BY u.queue, u.priority
    LOOP
        PERFORM windlass.offer(windlass.lane_for(g.queue, g.priority), g.n, g.tasks, g.payloads, g.options, g.ids,
                               g.attempts, g.deaths, g.enqueued);
    END LOOP;
    -- Where the step was too small for the late ones, the watermark stays; where it was too small for the rest, it
    -- moves to just before the last one taken. An idle watermark moves every 5 s, to leave few dead rows of its own.
    -- It never passes a row that somebody has locked.
    IF v_late < p_limit AND NOT v_late_held
       AND (v_late + v_fresh > 0 OR w.snapshot IS NULL OR v_now NOT BETWEEN w.run_at AND w.run_at + interval '5 s') THEN
        UPDATE windlass.deferred_watermark SET snapshot = v_seen,
               run_at = least(CASE WHEN v_fresh < p_limit THEN v_now ELSE v_last - interval '1 microsecond' END,
                              v_held - interval '1 microsecond');
    END IF;
    RETURN coalesce(cardinality(v_rows), 0);
END $$;
