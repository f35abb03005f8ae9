-- Claims waiting jobs of a lane ahead of its cursor, for worker 0, and ends them at once [rule 13].
-- Callers: end_waiting, end_in_lane, end_aside, shut_out. Lock: the lane. Answers with the seqs it really took.
-- The row leaves hi where it was: what lies beyond is remembered in `ahead` until hi passes it, what was a
-- visible hole is a hole no more. It adds no hole and moves no horizon, so its xid may be of any age.
CREATE OR REPLACE FUNCTION windlass.take_ahead(p_lane int, p_seqs bigint[], p_kind text) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    c        windlass.claim;
    h        record;
    v_holes  int8multirange;
    v_ahead  int8multirange;
    v_inline int8multirange;
    v_taken  int8multirange;
    v_seqs   bigint[];
    v_claim  bigint;
    v_spill  bigint[];
    v_segment smallint;
BEGIN
    PERFORM windlass.check_epoch();
    PERFORM windlass.lane_lock(p_lane);
    c := windlass.cursor_of(p_lane);
    v_holes := windlass.gather(coalesce(c.young, '{}') + coalesce(c.old, '{}'), c.spilled);
    -- A set written aside keeps numbers that hi has passed since.
    v_ahead := windlass.gather(c.ahead, c.ahead_spilled) * int8multirange(int8range(c.hi + 1, NULL));
    SELECT array_agg(r.seq), range_agg(int8range(r.seq, r.seq + 1)) INTO v_seqs, v_taken
      FROM unnest(p_seqs) AS s (seq)
     CROSS JOIN LATERAL (SELECT x.seq FROM windlass.ready x WHERE x.lane = p_lane AND x.seq = s.seq OFFSET 0) AS r
     WHERE r.seq > c.hi AND NOT r.seq <@ v_ahead OR r.seq <@ v_holes;
    IF v_seqs IS NULL THEN
        RETURN '{}';
    END IF;
    SELECT * INTO h FROM windlass.hole_state(c, v_taken, '{}', NULL, NULL);
    v_inline := coalesce(c.ahead, '{}') + (v_taken - v_holes);
    v_spill := c.ahead_spilled;
    IF (SELECT count(*) FROM unnest(v_inline)) > 32 THEN
        v_spill := windlass.spill(p_lane, v_inline, 0, coalesce(v_spill, '{}'));
        v_inline := '{}';
    END IF;
    v_claim := windlass.next_claim(c);
    v_segment := pg_sequence_last_value('windlass.segment_current'::regclass);
    INSERT INTO windlass.claim (segment, id, lane, worker, hi, n, late, seqs, claimed_at, probed_at, young, old,
                                old_horizon, spilled, holes, ahead, ahead_spilled, ahead_n)
    VALUES (v_segment, v_claim, p_lane, 0, c.hi, cardinality(v_seqs), true, v_taken, c.claimed_at, c.probed_at, h.young,
            h.old, h.horizon, h.spilled, h.holes, nullif(v_inline, '{}'), v_spill,
            windlass.size_of(v_ahead + (v_taken - v_holes)));
    INSERT INTO windlass.outcome (segment, claim, lane, flush, kind, seqs, n, at)
    VALUES (v_segment, v_claim, p_lane, 0, p_kind, v_taken, cardinality(v_seqs), windlass.now());
    RETURN v_seqs;
END $$;
