-- Admits held jobs of one queue and priority into their lane while that has room, one of each fair key in turn, up to p_limit
-- [C3]. Answers with how many. Callers: admit, admit_gates, the store after an enqueue and after a claim. Lock: the ring's row, by
-- trying only; then those of lane_try and offer.
-- The ring is walked in the order of the keys, from the one served last: a key with a million jobs gets one turn
-- like the others. No producer ever writes to the ring, so producers do not wait for each other.
CREATE OR REPLACE FUNCTION windlass.admit_ring(p_queue text, p_priority smallint, p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    j      windlass.held;
    v_lane int := windlass.lane_try(p_queue, p_priority);
    v_ring text;
    v_rows windlass.held[] := '{}';
    v_room bigint;
    v_window int;
BEGIN
    PERFORM windlass.require_read_committed();
    IF v_lane IS NULL THEN
        RETURN 0;
    END IF;
    INSERT INTO windlass.ring (queue, priority, key) VALUES (p_queue, p_priority, '') ON CONFLICT DO NOTHING;
    SELECT key INTO v_ring FROM windlass.ring WHERE queue = p_queue AND priority = p_priority FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    SELECT q.lane_window INTO v_window FROM windlass.queue q WHERE q.name = p_queue;
    v_room := least(v_window - windlass.lane_depth(v_lane), p_limit);
    IF v_room <= 0 THEN
        v_room := least(v_window - windlass.lane_seen(v_lane, v_window), p_limit);
    END IF;
    WHILE v_room > 0 LOOP
        SELECT * INTO j FROM windlass.held h
         WHERE h.queue = p_queue AND h.priority = p_priority AND h.fair_key > v_ring
         ORDER BY h.fair_key, h.turn LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            SELECT * INTO j FROM windlass.held h
             WHERE h.queue = p_queue AND h.priority = p_priority AND h.fair_key IS NOT NULL
             ORDER BY h.fair_key, h.turn LIMIT 1 FOR UPDATE SKIP LOCKED;
            EXIT WHEN NOT FOUND;
        END IF;
        v_ring := j.fair_key;
        DELETE FROM windlass.held h WHERE h.id = j.id;
        IF FOUND THEN
            v_rows := v_rows || j;
            v_room := v_room - 1;
        END IF;
    END LOOP;
    IF cardinality(v_rows) > 0 THEN
        PERFORM windlass.offer_held(v_rows);
        UPDATE windlass.ring SET key = v_ring WHERE queue = p_queue AND priority = p_priority;
    END IF;
    RETURN cardinality(v_rows);
END $$;
