-- The lane in which this session offers jobs of a queue and priority, or NULL. Callers: enqueue_many,
-- enqueue_new, enqueue_one, lane_sure, lane_try, promote, lock_lanes_of. Lock: none. One session keeps to one shard, so that its
-- jobs keep their order. NULL also where the lane was not adopted yet, and would give out numbers a second time [S3].
CREATE OR REPLACE FUNCTION windlass.lane_for(p_queue text, p_priority smallint) RETURNS int
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_lane int;
BEGIN
    SELECT l.id INTO v_lane
      FROM windlass.queue q
      JOIN windlass.lane l ON l.queue = q.name
      JOIN windlass.epoch_mark e ON e.epoch = l.epoch AND e.place = 'windlass.epoch_mark'::regclass::oid::bigint
     WHERE q.name = p_queue AND l.priority = p_priority AND l.shard = pg_backend_pid() % q.shards;
    RETURN v_lane;
END $$;
