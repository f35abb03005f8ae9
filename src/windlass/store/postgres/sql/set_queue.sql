-- Declares a queue, or changes some of its settings; unnamed ones stay. Callers: users, the store. Lock: the row.
CREATE OR REPLACE FUNCTION windlass.set_queue(p_name text, p_changes jsonb DEFAULT '{}') RETURNS windlass.queue
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    q windlass.queue;
BEGIN
    PERFORM windlass.check_name('queue', p_name);
    INSERT INTO windlass.queue (name) VALUES (p_name) ON CONFLICT DO NOTHING;
    SELECT * INTO q FROM windlass.queue WHERE name = p_name FOR UPDATE;
    q := jsonb_populate_record(q, p_changes - 'name');
    UPDATE windlass.queue SET paused = q.paused, max_workers = q.max_workers, retention = q.retention,
           dead_retention = q.dead_retention, lane_window = q.lane_window, shards = q.shards
     WHERE name = p_name;
    RETURN q;
END $$;
