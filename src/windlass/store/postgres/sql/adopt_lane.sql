-- Makes the numbers of a lane new [S3], and a copy's lane fit to work [rule 15]. Answers with how many orphans it offered again.
-- Callers: adopt. Lock: the lane's, by trying only; the lane's row.
-- Between the numbers of the last epoch and those of this one lie some that nobody will ever have. They are taken ahead of
-- the cursor [rule 13], so that neither depth nor a claim takes them for jobs under way. Nobody draws a number of a lane before
-- it is in this epoch (see lane_for, check_epoch), so the last one stays the last one; prepared transactions have theirs.
-- p_copy: with no producer under way, every hole that is not visible is burnt: horizon 0 says so, and the next claim takes what
-- is visible and drops the rest. Rows behind the cursor that no claim covers are offered again.
CREATE OR REPLACE FUNCTION windlass.adopt_lane(l windlass.lane, p_epoch bigint, p_copy boolean) RETURNS bigint
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    c         windlass.claim;
    v_ahead   int8multirange;
    v_last    bigint;
    v_skip    bigint;
    v_covered int8multirange;
    v_orphans windlass.ready[];
BEGIN
    IF NOT pg_try_advisory_xact_lock(windlass.lock_space(), l.id) THEN
        RAISE EXCEPTION 'lane % is in use', l.id USING ERRCODE = 'lock_not_available', HINT = 'Try again.';
    END IF;
    c := windlass.cursor_of(l.id);
    v_ahead := windlass.gather(c.ahead, c.ahead_spilled) * int8multirange(int8range(c.hi + 1, NULL));
    v_last := greatest(c.hi, upper(v_ahead) - 1, pg_sequence_last_value(l.position),
                       (SELECT max(seq) FROM windlass.ready WHERE lane = l.id), 0);
    v_skip := windlass.skip_of(v_last);
    IF p_copy THEN
        c.old := windlass.gather(coalesce(c.young, '{}') + coalesce(c.old, '{}'), c.spilled);
        SELECT coalesce(range_agg(x.seqs), '{}') INTO v_covered FROM windlass.claim x WHERE x.lane = l.id;
        SELECT array_agg(j.ready ORDER BY (j.ready).seq) INTO v_orphans
          FROM unnest(int8multirange(int8range(1, c.hi + 1)) - v_covered - c.old) AS gap (span)
         CROSS JOIN LATERAL (SELECT x AS ready FROM windlass.ready x WHERE x.lane = l.id AND x.seq >= lower(gap.span)
                                AND x.seq < upper(gap.span)) AS j;
        c.holes := windlass.size_of(c.old);
        c.old := nullif(c.old, '{}');
        c.old_horizon := CASE WHEN c.old IS NOT NULL THEN 0 END;
        c.young := NULL;
        c.spilled := NULL;
    END IF;
    c.segment := windlass.pin_segment();
    c.id := nextval('windlass.claim_id');
    c.worker := 0;
    c.n := 0;
    c.late := false;
    c.seqs := '{}';
    c.snapshot := NULL;
    c.ahead := coalesce(c.ahead, '{}') + int8multirange(int8range(v_last + 1, v_last + v_skip + 1));
    c.ahead_n := windlass.size_of(v_ahead) + v_skip;
    INSERT INTO windlass.claim SELECT c.*;
    UPDATE windlass.lane SET epoch = p_epoch, skipped = skipped + v_skip WHERE id = l.id;
    PERFORM setval(l.position, v_last + v_skip, true), setval(l.idle, 1, true);
    IF v_orphans IS NULL THEN
        RETURN 0;
    END IF;
    DELETE FROM windlass.ready d USING unnest(v_orphans) AS u WHERE d.lane = u.lane AND d.seq = u.seq;
    PERFORM windlass.offer(l.id, cardinality(v_orphans), array_agg(u.task), array_agg(u.payload::text),
                           array_agg(u.options::text), array_agg(windlass.job_of(u)), array_agg(u.attempt),
                           array_agg(u.deaths), array_agg(windlass.enqueued_of(u)))
       FROM unnest(v_orphans) AS u;
    RETURN cardinality(v_orphans);
END $$;
