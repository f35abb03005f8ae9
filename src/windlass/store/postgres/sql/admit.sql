-- One bounded step: admits held jobs into lanes that have room, one of each fair key in turn [C3].
-- Callers: the store. Lock: the ring rows, by trying only; then those of offer.
-- The ring is walked in the order of the keys, from the one served last: a key with a million jobs gets one turn
-- like the others. No producer ever writes to the ring, so producers do not wait for each other.
-- OFFSET 0 is a fence [rule 8]: without it the planner groups every held row to find the few lanes that have some.
CREATE OR REPLACE FUNCTION windlass.admit(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    l       record;
    j       windlass.held;
    v_ring  text;
    v_rows  windlass.held[];
    v_room  int;
    v_total int := 0;
BEGIN
    PERFORM windlass.require_read_committed();
    IF NOT EXISTS (SELECT FROM windlass.held) THEN
        RETURN 0;
    END IF;
    FOR l IN SELECT q.name, n.priority, q.lane_window, windlass.lane_sure(q.name, n.priority) AS lane
               FROM windlass.queue q CROSS JOIN LATERAL (SELECT DISTINCT priority FROM windlass.lane WHERE queue = q.name) AS n
              WHERE EXISTS (SELECT FROM windlass.held h WHERE h.queue = q.name AND h.priority = n.priority OFFSET 0) LOOP
        INSERT INTO windlass.ring (queue, priority, key) VALUES (l.name, l.priority, '') ON CONFLICT DO NOTHING;
        SELECT key INTO v_ring FROM windlass.ring WHERE queue = l.name AND priority = l.priority FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        v_room := least(l.lane_window - windlass.lane_depth(l.lane), p_limit - v_total);
        v_rows := '{}';
        WHILE v_room > 0 LOOP
            SELECT * INTO j FROM windlass.held h
             WHERE h.queue = l.name AND h.priority = l.priority AND h.fair_key > v_ring
             ORDER BY h.fair_key, h.turn LIMIT 1 FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                SELECT * INTO j FROM windlass.held h
                 WHERE h.queue = l.name AND h.priority = l.priority ORDER BY h.fair_key, h.turn LIMIT 1
                   FOR UPDATE SKIP LOCKED;
                EXIT WHEN NOT FOUND;
            END IF;
            v_ring := j.fair_key;
            DELETE FROM windlass.held h WHERE h.id = j.id;
            IF FOUND THEN
                v_rows := v_rows || j;
                v_room := v_room - 1;
            END IF;
        END LOOP;
        CONTINUE WHEN cardinality(v_rows) = 0;
        PERFORM windlass.offer(l.lane, cardinality(v_rows), array_agg(u.task), array_agg(u.payload::text),
                               array_agg(u.options::text), array_agg(u.id), array_agg(u.attempt), array_agg(u.deaths),
                               array_agg(u.enqueued_at), array_agg(u.since))
           FROM unnest(v_rows) AS u;
        UPDATE windlass.ring SET key = v_ring WHERE queue = l.name AND priority = l.priority;
        v_total := v_total + cardinality(v_rows);
    END LOOP;
    RETURN v_total;
END $$;
