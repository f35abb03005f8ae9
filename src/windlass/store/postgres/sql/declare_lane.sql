-- Makes sure that a queue has its lanes of one priority, and answers with the lane of shard 0.
-- Callers: lane_sure. Never a producer's transaction [rule 11].
-- Lock: advisory, (oid of the sequence of lanes, hash of the queue), so that who declares lanes of another queue, and leaves the
-- transaction open, is in nobody's way; the row of meta FOR KEY SHARE, so that no epoch begins before the lane is to be seen; then pins
-- the segment.
-- A lane without a cursor is an error, so its first claim row is written with it. A server that was promoted may have
-- forgotten a lane of the same number, hence its first seq is 1 in the first epoch only [S3].
CREATE OR REPLACE FUNCTION windlass.declare_lane(p_queue text, p_priority smallint) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    v_shards smallint;
    v_shard  smallint;
    v_lane   int;
    v_epoch  bigint;
    v_start  bigint;
BEGIN
    PERFORM windlass.check_name('queue', p_queue);
    PERFORM windlass.require_read_committed();
    PERFORM pg_advisory_xact_lock(('windlass.lane_id'::regclass::oid::bigint - 2147483648)::int, hashtext(p_queue));
    INSERT INTO windlass.queue (name) VALUES (p_queue) ON CONFLICT DO NOTHING;
    SELECT shards INTO v_shards FROM windlass.queue WHERE name = p_queue;
    SELECT m.epoch INTO v_epoch FROM windlass.meta m WHERE m.single FOR KEY SHARE;
    FOR v_shard IN SELECT s FROM generate_series(0, v_shards - 1) s
                    WHERE NOT EXISTS (SELECT FROM windlass.lane l
                                       WHERE l.queue = p_queue AND l.priority = p_priority AND l.shard = s) LOOP
        v_lane := nextval('windlass.lane_id');
        EXECUTE format('CREATE SEQUENCE windlass.%I MINVALUE 1 MAXVALUE 17592186044415 NO CYCLE CACHE 1',
                       'lane_' || v_lane || '_position');
        EXECUTE format('CREATE SEQUENCE windlass.%I MINVALUE 0 MAXVALUE 1 START 1 CACHE 1',
                       'lane_' || v_lane || '_idle');
        v_start := CASE WHEN v_epoch > 1 THEN windlass.skip_of(0) ELSE 0 END;
        PERFORM setval(format('windlass.%I', 'lane_' || v_lane || '_position'), v_start, true) WHERE v_start > 0;
        -- Idle from the start: the first job of a lane wakes whoever listens.
        PERFORM setval(format('windlass.%I', 'lane_' || v_lane || '_idle'), 1, true);
        INSERT INTO windlass.lane (id, queue, priority, shard, epoch, skipped, position, idle)
        VALUES (v_lane, p_queue, p_priority, v_shard, v_epoch, v_start,
                format('windlass.%I', 'lane_' || v_lane || '_position'), format('windlass.%I', 'lane_' || v_lane || '_idle'));
        INSERT INTO windlass.claim (segment, id, lane, worker, hi, n, seqs, claimed_at, probed_at)
        VALUES (windlass.pin_segment(), nextval('windlass.claim_id'), v_lane, 0, v_start, 0, '{}',
                windlass.now(), windlass.now());
    END LOOP;
    RETURN (SELECT id FROM windlass.lane WHERE queue = p_queue AND priority = p_priority AND shard = 0);
END $$;
