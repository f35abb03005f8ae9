-- Cools a whole queue after a handler was throttled, and answers with the seconds until it gives out jobs again [O3].
-- Callers: the store. Lock: the queue's row, waited for 1 s at most: the caller knows
-- what to do where this fails. Only the first in a window counts: whoever finds the queue cooling is told
-- how long, without a lock, since all its siblings come at about the same moment.
CREATE OR REPLACE FUNCTION windlass.throttle(p_queue text, p_hint float8 DEFAULT NULL) RETURNS float8
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' SET jit = off AS $$
DECLARE
    q       windlass.queue;
    v_left  float8;
    v_delay float8;
BEGIN
    SELECT * INTO q FROM windlass.queue WHERE name = p_queue;
    IF NOT FOUND THEN
        PERFORM windlass.check_name('queue', p_queue);
        INSERT INTO windlass.queue (name) VALUES (p_queue) ON CONFLICT DO NOTHING;
    ELSE
        v_left := windlass.cools(q);
        IF v_left > 0 THEN
            RETURN v_left;
        END IF;
    END IF;
    SELECT * INTO q FROM windlass.queue WHERE name = p_queue FOR NO KEY UPDATE;
    v_left := windlass.cools(q);
    IF v_left > 0 THEN
        RETURN v_left;
    END IF;
    v_delay := q.cool_base * CASE WHEN q.backoff THEN 2 ^ least(q.throttles, 30) ELSE 1 END;
    v_delay := least(greatest(v_delay, p_hint), q.cool_cap);
    UPDATE windlass.queue SET throttles = throttles + 1, cool_until = windlass.after(v_delay) WHERE name = p_queue;
    RETURN v_delay;
END $$;
