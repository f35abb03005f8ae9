-- Makes sure that a queue has its lanes of one priority, and answers with the lane of shard 0.
-- Callers: lane_sure. Never a producer's transaction [rule 11].
-- Lock: advisory, lane 0 of the schema's lock space; then pins the segment.
-- A lane without a cursor is an error, so its first claim row (hi = 0) is written with it.
CREATE OR REPLACE FUNCTION windlass.declare_lane(p_queue text, p_priority smallint) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    v_shards smallint;
    v_shard  smallint;
    v_lane   int;
BEGIN
    PERFORM windlass.check_name('queue', p_queue);
    PERFORM windlass.lane_lock(0);
    INSERT INTO windlass.queue (name) VALUES (p_queue) ON CONFLICT DO NOTHING;
    SELECT shards INTO v_shards FROM windlass.queue WHERE name = p_queue;
    FOR v_shard IN SELECT s FROM generate_series(0, v_shards - 1) s
                    WHERE NOT EXISTS (SELECT FROM windlass.lane l
                                       WHERE l.queue = p_queue AND l.priority = p_priority AND l.shard = s) LOOP
        v_lane := nextval('windlass.lane_id');
        EXECUTE format('CREATE SEQUENCE windlass.%I MINVALUE 1 MAXVALUE 17592186044415 NO CYCLE CACHE 1',
                       'lane_' || v_lane || '_position');
        EXECUTE format('CREATE SEQUENCE windlass.%I MINVALUE 0 MAXVALUE 1 START 1 CACHE 1',
                       'lane_' || v_lane || '_idle');
        -- Idle from the start: the first job of a lane wakes whoever listens.
        PERFORM setval(format('windlass.%I', 'lane_' || v_lane || '_idle'), 1, true);
        INSERT INTO windlass.lane (id, queue, priority, shard, position, idle)
        VALUES (v_lane, p_queue, p_priority, v_shard,
                format('windlass.%I', 'lane_' || v_lane || '_position')::regclass,
                format('windlass.%I', 'lane_' || v_lane || '_idle')::regclass);
        INSERT INTO windlass.claim (segment, id, lane, worker, hi, n, seqs, claimed_at, probed_at)
        VALUES (windlass.pin_segment(), nextval('windlass.claim_id'), v_lane, 0, 0, 0, '{}',
                clock_timestamp(), clock_timestamp());
    END LOOP;
    RETURN (SELECT id FROM windlass.lane WHERE queue = p_queue AND priority = p_priority AND shard = 0);
END $$;
