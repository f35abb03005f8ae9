-- Moves the unfinished rows of one lane out of the victim, in bounded steps; p_after and next_after walk the lane.
-- Callers: the store's rotate, after the seal. Lock: the rotation row; pins the current segment. No lane lock: a
-- move is one transaction, so any snapshot sees the row exactly once, and its position does not change.
--   waiting                           -> the current segment
--   running, claimed in another one   -> the segment of its claim, so that evidence and row go together
--   running, claimed in the victim    -> stays; rotation_reclaim carries it with its claim
--   neither waiting nor covered       -> offered again: no rule allows it, so it is counted as an alarm
-- The cursor is read before the claims: a position behind it that no claim covers now was covered by none then. One
-- beyond it waits, or was claimed since, in the current segment: it goes there in either case, without a look.
-- Rows are deleted by their ctid: by position the planner may walk the whole lane for each of them [rule 8].
CREATE OR REPLACE FUNCTION windlass.rotation_move(
    p_turn bigint, p_lane int, p_after bigint, p_limit int,
    OUT moved int, OUT offered_again int, OUT next_after bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    r windlass.rotation;
    c         windlass.claim;
    v_bounds  int8range;
    v_done    int8multirange;
    v_holes   int8multirange;
    v_current smallint;
    v_orphans windlass.ready[];
BEGIN
    r := windlass.rotation_lock(p_turn);
    moved := 0;
    offered_again := 0;
    SELECT int8range(min(seq), max(seq), '[]') INTO v_bounds FROM windlass.ready
     WHERE segment = r.victim AND lane = p_lane AND seq > p_after;
    IF lower(v_bounds) IS NULL THEN
        RETURN;
    END IF;
    v_current := windlass.pin_segment();
    c := windlass.cursor_of(p_lane);
    v_holes := windlass.gather(coalesce(c.young, '{}') + coalesce(c.old, '{}'), c.spilled);
    -- Beyond the cursor only what was taken ahead has ended; that needs no look at the outcomes.
    SELECT coalesce(range_agg(o.seqs), '{}') INTO v_done FROM windlass.outcome o
     WHERE o.lane = p_lane AND lower(v_bounds) <= c.hi;
    v_done := v_done + windlass.gather(c.ahead, c.ahead_spilled);
    WITH open AS MATERIALIZED (
        SELECT j.* FROM unnest(int8multirange(v_bounds) - v_done) AS gap (span)
         CROSS JOIN LATERAL (SELECT x.ctid AS place, x.seq FROM windlass.ready x
                              WHERE x.segment = r.victim AND x.lane = p_lane
                                AND x.seq >= lower(gap.span) AND x.seq < upper(gap.span)
                              ORDER BY x.seq LIMIT p_limit) AS j
         LIMIT p_limit),
    judged AS MATERIALIZED (
        SELECT o.place, k.id AS claim,
               CASE WHEN k.id IS NOT NULL THEN k.segment
                    WHEN o.seq > c.hi OR o.seq <@ v_holes THEN v_current END AS target
          FROM open o LEFT JOIN LATERAL (SELECT * FROM windlass.place_claim(p_lane, o.seq) WHERE o.seq <= c.hi OFFSET 0) AS k
            ON true),
    gone AS (
        DELETE FROM windlass.ready d USING judged j
         WHERE d.segment = r.victim AND d.ctid = j.place AND j.target IS DISTINCT FROM r.victim
        RETURNING d.*, j.target),
    put AS (
        INSERT INTO windlass.ready (segment, lane, seq, id, attempt, deaths, task, payload, options, offered_at, enqueued_at)
        SELECT target, lane, seq, id, attempt, deaths, task, payload, options, offered_at, enqueued_at FROM gone
         WHERE target IS NOT NULL
        RETURNING 1)
    SELECT (SELECT count(*) FROM put), (SELECT max(seq) FROM open),
           (SELECT array_agg(ROW (g.seq, g.offered_at, g.id, g.enqueued_at, g.lane, g.segment, g.attempt, g.deaths, g.task, g.payload,
                                  g.options)::windlass.ready ORDER BY g.seq)
              FROM gone g WHERE g.target IS NULL)
      INTO moved, next_after, v_orphans;
    IF v_orphans IS NOT NULL THEN
        offered_again := cardinality(v_orphans);
        RAISE WARNING 'windlass: % rows of lane % were neither waiting nor claimed and are offered again',
            offered_again, p_lane;
        PERFORM windlass.offer(p_lane, offered_again, array_agg(u.task), array_agg(u.payload::text),
                               array_agg(u.options::text), array_agg(windlass.job_of(u)), array_agg(u.attempt),
                               array_agg(u.deaths), array_agg(windlass.enqueued_of(u)))
           FROM unnest(v_orphans) AS u;
    END IF;
END $$;
