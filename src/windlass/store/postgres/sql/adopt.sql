-- Begins a new epoch [S3] [rule 15]: what a server that was promoted, restored or has recovered may have given out and
-- forgotten is not given out again, and a restored or switched-over copy is made fit to work. Answers with how many jobs
-- were offered again. Callers: users; the store at open, and where check_epoch has refused a call.
-- Lock: the rotation row; for a copy those of adopt_copy. Then by trying only: the row of meta, which whoever declares a lane or
-- registers a worker holds until that can be seen here; workers' life rows, since a flush may hold its own while it waits for
-- ready; lanes. Of several processes that come at once, the first adopts it: without p_force it looks again, under the lock,
-- whether there is need.
-- After a crash workers live on: their claims are still theirs, and what they know of others is refused, since no claim has
-- that number any more. After anything else all of them are dead, and what they held is offered again. A copy of a store that
-- was never used is a new one.
CREATE OR REPLACE FUNCTION windlass.adopt(p_force boolean DEFAULT true) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    l       windlass.lane;
    w       bigint;
    v_why   text;
    v_epoch bigint;
    v_again bigint := 0;
BEGIN
    PERFORM windlass.require_read_committed();
    PERFORM windlass.check_unsubscribed();
    PERFORM FROM windlass.rotation FOR UPDATE;
    v_why := CASE WHEN p_force THEN 'copy' ELSE windlass.must_adopt() END;
    IF v_why IS NULL THEN
        RETURN 0;
    ELSIF v_why <> 'copy' THEN
        PERFORM windlass.skip_ids(0);
    ELSIF p_force OR EXISTS (SELECT FROM windlass.lane) OR pg_sequence_last_value('windlass.job_id'::regclass) IS NOT NULL THEN
        PERFORM windlass.adopt_copy();
    ELSE
        v_why := 'new';
    END IF;
    IF v_why <> 'new' THEN
        PERFORM setval('windlass.claim_id', pg_sequence_last_value('windlass.claim_id'::regclass) + (1::bigint << 32)
                                            + floor(random() * (1::bigint << 32))::bigint, true),
                setval('windlass.event_id_seq', coalesce(pg_sequence_last_value('windlass.event_id_seq'::regclass), 0)
                                                + (1 << 30) + floor(random() * (1 << 30))::bigint, true),
                setval('windlass.lane_id', s.last + least(32 + floor(random() * 32)::int, (524287 - s.last) / 4), true)
           FROM (SELECT coalesce(pg_sequence_last_value('windlass.lane_id'::regclass), 0) AS last) AS s;
        UPDATE windlass.leader SET holder = NULL, until = '-infinity', term = term + (1 << 20) + floor(random() * (1 << 20))::int;
    END IF;
    PERFORM FROM windlass.meta FOR UPDATE NOWAIT;
    UPDATE windlass.meta SET epoch = epoch + (v_why <> 'new')::int, timeline = windlass.timeline(),
           ids_from = s.last + windlass.skip_of(s.last),
           system_identifier = (SELECT s.system_identifier FROM pg_control_system() AS s),
           database = (SELECT oid FROM pg_database WHERE datname = current_database())
      FROM (SELECT coalesce(pg_sequence_last_value('windlass.job_id'::regclass), 0) AS last) AS s
    RETURNING epoch INTO v_epoch;
    DELETE FROM windlass.epoch_mark;
    INSERT INTO windlass.epoch_mark (epoch, place) VALUES (v_epoch, 'windlass.epoch_mark'::regclass::oid);
    PERFORM FROM windlass.worker_life WHERE NOT settled FOR UPDATE NOWAIT;
    FOR l IN SELECT * FROM windlass.lane ORDER BY id LOOP
        v_again := v_again + windlass.adopt_lane(l, v_epoch, v_why = 'copy');
    END LOOP;
    UPDATE windlass.worker_life SET epoch = v_epoch, alive = alive AND v_why = 'crash' WHERE NOT settled;
    IF v_why <> 'crash' THEN
        FOR w IN SELECT id FROM windlass.worker_life WHERE NOT settled ORDER BY id LOOP
            v_again := v_again + (SELECT g.offered + g.cancelled FROM windlass.give_back(w, 'released', '{}', 2147483647) AS g);
        END LOOP;
    END IF;
    IF v_why = 'copy' THEN
        PERFORM windlass.adopt_edits();
    END IF;
    RETURN v_again;
END $$;
