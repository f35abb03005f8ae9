-- Starts, or takes up, the reclaiming of one segment, and answers with its number (NULL: nothing is due) and that of
-- the turn, which every later step must name: a rotator that slept meanwhile has an old one and is refused.
-- Callers: the store's rotate. Lock: the rotation row, by trying only (a second rotator finds nothing to do).
-- When the current segment is due and an empty one stands ready, that one becomes current first. The number lives
-- in a sequence, so every producer and claim sees the switch at once, whatever its snapshot.
CREATE OR REPLACE FUNCTION windlass.rotation_begin(
    p_force boolean, p_skip smallint[], OUT victim smallint, OUT turn bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    r          windlass.rotation;
    m          windlass.meta;
    v_now      timestamptz := windlass.now();
    v_current  smallint;
    v_next     smallint;
    v_crowded  boolean;
BEGIN
    PERFORM windlass.require_read_committed();
    PERFORM windlass.check_epoch();
    -- Far enough ahead at all times; see skip_ids.
    UPDATE windlass.meta SET ids_from = s.last + windlass.skip_of(s.last)
      FROM (SELECT coalesce(pg_sequence_last_value('windlass.job_id'::regclass), 0) AS last) AS s WHERE ids_from < s.last + (1 << 28);
    SELECT * INTO r FROM windlass.rotation FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF r.victim IS NOT NULL AND r.victim <> ALL (p_skip) THEN
        victim := r.victim;
        turn := r.turn;
        RETURN;
    END IF;
    SELECT * INTO m FROM windlass.meta;
    v_current := pg_sequence_last_value('windlass.segment_current'::regclass);
    UPDATE windlass.segment SET opened_at = coalesce(opened_at, v_now), empty = false WHERE no = v_current;
    -- A switch outlives the transaction that made it, so what it had to say about the old one may be missing.
    UPDATE windlass.segment SET closed_at = v_now WHERE NOT empty AND no <> v_current AND closed_at IS NULL;
    v_crowded := windlass.segment_bytes(NULL) > m.size_limit;
    IF p_skip = '{}' AND (
        p_force OR windlass.segment_bytes(v_current) > m.size_limit / 8
        OR (SELECT opened_at FROM windlass.segment WHERE no = v_current) <= v_now - make_interval(secs => m.retention / 6))
    THEN
        SELECT no INTO v_next FROM windlass.segment WHERE empty ORDER BY (no + 8 - v_current) % 8 LIMIT 1;
        IF FOUND THEN
            UPDATE windlass.segment SET closed_at = v_now WHERE no = v_current;
            UPDATE windlass.segment SET opened_at = v_now, closed_at = NULL, empty = false WHERE no = v_next;
            PERFORM setval('windlass.segment_current'::regclass, v_next, true);
            v_current := v_next;
        END IF;
    END IF;
    SELECT no INTO victim FROM windlass.segment
     WHERE NOT empty AND no <> v_current AND no <> ALL (p_skip)
       AND (p_force OR v_crowded OR closed_at <= v_now - make_interval(secs => m.retention))
     ORDER BY closed_at LIMIT 1;
    UPDATE windlass.rotation x SET victim = rotation_begin.victim, turn = x.turn + 1, judged = false, judged_lane = 0,
           judged_id = 0, carried_at = NULL, carry_lanes = '{}', carry = '{}'
    RETURNING x.turn INTO turn;
END $$;
