-- Cools a whole queue after a handler was throttled, and answers with the seconds until it gives out jobs again [O3].
-- Callers: the store. Lock: the queue's row. Only the first in a window counts: whoever finds the queue cooling is told
-- how long, without a lock, since all its siblings come at about the same moment.
CREATE OR REPLACE FUNCTION windlass.throttle(p_queue text, p_hint float8 DEFAULT NULL) RETURNS float8
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    q       windlass.queue;
    v_now   timestamptz := windlass.now();
    v_delay float8;
BEGIN
    SELECT * INTO q FROM windlass.queue WHERE name = p_queue;
    IF NOT FOUND THEN
        PERFORM windlass.check_name('queue', p_queue);
        INSERT INTO windlass.queue (name) VALUES (p_queue) ON CONFLICT DO NOTHING;
    ELSIF q.cool_until > v_now THEN
        RETURN date_part('epoch', q.cool_until - v_now);
    END IF;
    SELECT * INTO q FROM windlass.queue WHERE name = p_queue FOR NO KEY UPDATE;
    v_now := windlass.now();
    IF q.cool_until > v_now THEN
        RETURN date_part('epoch', q.cool_until - v_now);
    END IF;
    v_delay := q.cool_base * CASE WHEN q.backoff THEN 2 ^ least(q.throttles, 30) ELSE 1 END;
    v_delay := least(greatest(v_delay, p_hint), q.cool_cap);
    UPDATE windlass.queue SET throttles = throttles + 1, cool_until = windlass.after(v_delay) WHERE name = p_queue;
    RETURN v_delay;
END $$;
