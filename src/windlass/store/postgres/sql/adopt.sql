-- Makes a restored or switched-over copy fit to work [rule 15]. Answers with how many jobs were offered again.
-- Callers: users; the store at open, when the system identifier differs or a sequence was set back. Lock: the rotation
-- row; SHARE ROW EXCLUSIVE on ready, so that no producer is under way; then lanes and workers' life rows, by trying
-- only, since a flush may hold its life row while it waits for ready.
-- With no producer under way, every hole that is not visible is burnt: horizon 0 says so, and the next claim takes
-- what is visible and drops the rest. Of several processes that open a copy at once, the first adopts it: without
-- p_force it looks again, under the lock, whether there is need.
CREATE OR REPLACE FUNCTION windlass.adopt(p_force boolean DEFAULT true) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    l         windlass.lane;
    c         windlass.claim;
    w         bigint;
    v_orphans windlass.ready[];
    v_covered int8multirange;
    v_highest bigint;
    v_again   bigint := 0;
BEGIN
    PERFORM windlass.require_read_committed();
    PERFORM FROM windlass.rotation FOR UPDATE;
    PERFORM FROM windlass.deferred_watermark FOR UPDATE;
    LOCK TABLE windlass.ready IN SHARE ROW EXCLUSIVE MODE;
    IF NOT p_force AND NOT windlass.must_adopt() THEN
        RETURN 0;
    END IF;
    PERFORM setval('windlass.horizon'::regclass, 0, true);
    UPDATE windlass.deferred_watermark SET run_at = '-infinity', snapshot = NULL;
    PERFORM FROM windlass.unique_key WHERE touched IS NOT NULL FOR UPDATE NOWAIT;
    UPDATE windlass.unique_key SET rerun = NULL, touched = NULL WHERE touched IS NOT NULL;
    -- Numbers that were given out are not given out again. Lane 0 holds the ids drawn from job_id.
    PERFORM setval(s.sequence, s.highest, true)
       FROM (VALUES ('windlass.claim_id'::regclass, (SELECT max(id) FROM windlass.claim)),
                    ('windlass.lane_id'::regclass, (SELECT max(id) FROM windlass.lane)),
                    ('windlass.seq_set_id'::regclass, (SELECT max(id) FROM windlass.seq_set)),
                    ('windlass.held_turn'::regclass, greatest((SELECT max(turn) FROM windlass.held),
                                                              (SELECT max(turn) FROM windlass.pass))),
                    ('windlass.part_event_no'::regclass, (SELECT max(no) FROM windlass.part_event)),
                    ('windlass.job_id'::regclass,
                     greatest((SELECT max(id) FROM windlass.ready WHERE id < 1::bigint << 44),
                              (SELECT max(id) FROM windlass.deferred WHERE id < 1::bigint << 44),
                              (SELECT max(id) FROM windlass.held WHERE id < 1::bigint << 44),
                              (SELECT max(id) FROM windlass.dead WHERE id < 1::bigint << 44),
                              (SELECT max(id) FROM windlass.parent WHERE id < 1::bigint << 44),
                              (SELECT max(job) FROM windlass.part WHERE job < 1::bigint << 44),
                              (SELECT max(job) FROM windlass.unique_key WHERE job < 1::bigint << 44),
                              (SELECT max(job) FROM windlass.idempotency WHERE job < 1::bigint << 44))))
         AS s (sequence, highest)
      WHERE s.highest > coalesce(pg_sequence_last_value(s.sequence), 0);
    FOR l IN SELECT * FROM windlass.lane ORDER BY id LOOP
        IF NOT pg_try_advisory_xact_lock(windlass.lock_space(), l.id) THEN
            RAISE EXCEPTION 'lane % is in use', l.id USING ERRCODE = 'lock_not_available', HINT = 'Try again.';
        END IF;
        c := windlass.cursor_of(l.id);
        v_highest := greatest(c.hi, upper(windlass.gather(c.ahead, c.ahead_spilled)) - 1,
                              (SELECT max(seq) FROM windlass.ready WHERE lane = l.id));
        IF v_highest > coalesce(pg_sequence_last_value(l.position), 0) THEN
            PERFORM setval(l.position, v_highest, true);
        END IF;
        c.old := windlass.gather(coalesce(c.young, '{}') + coalesce(c.old, '{}'), c.spilled);
        SELECT coalesce(range_agg(x.seqs), '{}') INTO v_covered FROM windlass.claim x WHERE x.lane = l.id;
        SELECT array_agg(j.ready ORDER BY (j.ready).seq) INTO v_orphans
          FROM unnest(int8multirange(int8range(1, c.hi + 1)) - v_covered - c.old) AS gap (span)
         CROSS JOIN LATERAL (SELECT x AS ready FROM windlass.ready x WHERE x.lane = l.id AND x.seq >= lower(gap.span)
                                AND x.seq < upper(gap.span)) AS j;
        c.segment := windlass.pin_segment();
        c.id := nextval('windlass.claim_id');
        c.worker := 0;
        c.n := 0;
        c.late := false;
        c.seqs := '{}';
        c.holes := windlass.size_of(c.old);
        c.old := nullif(c.old, '{}');
        c.old_horizon := CASE WHEN c.old IS NOT NULL THEN 0 END;
        c.young := NULL;
        c.spilled := NULL;
        c.snapshot := NULL;
        INSERT INTO windlass.claim SELECT c.*;
        CONTINUE WHEN v_orphans IS NULL;
        v_again := v_again + cardinality(v_orphans);
        DELETE FROM windlass.ready d USING unnest(v_orphans) AS u WHERE d.lane = u.lane AND d.seq = u.seq;
        PERFORM windlass.offer(l.id, cardinality(v_orphans), array_agg(u.task), array_agg(u.payload::text),
                               array_agg(u.options::text), array_agg(windlass.job_of(u)), array_agg(u.attempt),
                               array_agg(u.deaths), array_agg(windlass.enqueued_of(u)))
           FROM unnest(v_orphans) AS u;
    END LOOP;
    PERFORM FROM windlass.worker_life WHERE NOT settled FOR UPDATE NOWAIT;
    FOR w IN UPDATE windlass.worker_life SET alive = false WHERE NOT settled RETURNING id LOOP
        v_again := v_again + (SELECT g.offered + g.cancelled FROM windlass.give_back(w, 'released', '{}', 2147483647) AS g);
    END LOOP;
    UPDATE windlass.meta SET system_identifier = (SELECT s.system_identifier FROM pg_control_system() AS s),
           database = (SELECT oid FROM pg_database WHERE datname = current_database());
    RETURN v_again;
END $$;
