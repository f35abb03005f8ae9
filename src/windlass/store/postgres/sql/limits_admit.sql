-- Letting jobs through gates, and out of the ring of fair keys into their lanes.

-- ==== Gates ====

-- Lets jobs through these gates, and on through the gates behind them, while there is room. Returns how many
-- reached their lanes.
-- Callers: the store, right after a commit that may have made room or added a job; sweep_gates. May call:
-- worker. Lock: those gates, each waited for p_wait ms at most, in the order in which jobs pass them and then
-- of names, so that no two of these deadlock; then those of offer. Gates that it had to skip are noted for
-- promote.
-- A pass given here is seen by all who take the gate's lock later: no two can give away the same room.
CREATE OR REPLACE FUNCTION windlass.admit_gates(p_gates text[], p_limit int, p_wait int DEFAULT 0) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    a       record;
    v_kind  text;
    v_gate  text;
    v_todo  text[] := p_gates;
    v_outs  windlass.held[] := '{}';
    v_rings windlass.held[] := '{}';
    v_moved int := 0;
BEGIN
    PERFORM windlass.require_read_committed();
    FOREACH v_kind IN ARRAY ARRAY['shut', 'over', 'budget', 'order', 'key', 'task'] LOOP
        FOR v_gate IN SELECT DISTINCT g COLLATE "C" AS gate FROM unnest(v_todo) AS g
                       WHERE g LIKE v_kind || ':%' ORDER BY 1 LOOP
            CONTINUE WHEN NOT EXISTS (SELECT FROM windlass.held h WHERE h.gate = v_gate)
                      AND NOT EXISTS (SELECT FROM windlass.changed_gate s WHERE s.gate = v_gate);
            IF NOT windlass.gate_lock(v_gate, p_wait) THEN
                INSERT INTO windlass.changed_gate (gate) VALUES (v_gate);
                CONTINUE;
            END IF;
            IF v_kind = 'shut' THEN
                SELECT * INTO a FROM windlass.admit_unserved(v_gate, p_limit - v_moved);
            ELSIF v_kind = 'over' THEN
                SELECT * INTO a FROM windlass.admit_over(v_gate, p_limit - v_moved);
            ELSE
                SELECT * INTO a FROM windlass.admit_gate(v_gate, p_limit - v_moved);
            END IF;
            v_moved := v_moved + a.n;
            v_todo := v_todo || a.nexts;
            v_outs := v_outs || a.outs;
            v_rings := v_rings || a.rings;
        END LOOP;
    END LOOP;
    PERFORM windlass.offer_held(v_outs);
    RETURN cardinality(v_outs)
         + coalesce((SELECT sum(windlass.admit_ring(r.queue, r.priority, p_limit))
                       FROM (SELECT DISTINCT u.queue, u.priority FROM unnest(v_rings) AS u) AS r), 0);
END $$;

-- Lets the first jobs of a gate's waiting list through while there is room for them, up to p_limit [F1] [F3]
-- [F6]. Each gets its pass, and goes on to the waiting list of its next gate (`nexts`), to the ring of its
-- fair key (`rings`), or (`outs`) into its lane.
-- Callers: admit_gates. May call: worker. Lock: the gate's, held by the caller; the rows it moves, and lanes
-- that must be declared, without waiting. In the waiting list of an ordering key no job overtakes a locked
-- one.
-- The gate's note is removed before the list is read, so that a later note is not lost.
CREATE OR REPLACE FUNCTION windlass.admit_gate(
    p_gate text, p_limit int, OUT n int, OUT nexts text[], OUT outs windlass.held[],
    OUT rings windlass.held[])
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    h       windlass.held;
    v_kind  text := split_part(p_gate, ':', 1);
    v_task  text;
    v_text  text;
    v_limit bigint;
    v_burst float8;
    v_shut  text[] := '{}';
    v_busy  text[] := '{}';  -- lanes that were waited for in vain
    v_lane  text;
    v_taken bigint;
    v_next  text;
BEGIN
    n := 0;
    nexts := '{}';
    outs := '{}';
    rings := '{}';
    DELETE FROM windlass.changed_gate s WHERE s.gate = p_gate;
    IF v_kind = 'task' THEN
        PERFORM windlass.count_running(substr(p_gate, 6));
    END IF;
    v_taken := CASE WHEN v_kind = 'budget' THEN windlass.promised_tokens(p_gate)
                    ELSE (SELECT count(*) FROM windlass.pass p WHERE p.gate = p_gate) END;
    IF v_kind IN ('key', 'task') THEN
        v_shut := windlass.unserved_queues();
    END IF;
    IF v_kind = 'budget' THEN
        SELECT b.burst INTO v_burst FROM windlass.budget b
         WHERE b.name = split_part(substr(p_gate, 8), '/', 1);
    END IF;
    FOR h IN SELECT * FROM windlass.held x WHERE x.gate = p_gate ORDER BY x.turn LOOP
        IF h.need > v_burst AND n < p_limit THEN
            -- Its budget can never hold that much: it steps aside, keeping its turn, and holds up nobody. See
            -- admit_over.
            PERFORM FROM windlass.held x WHERE x.id = h.id AND x.gate = p_gate FOR UPDATE SKIP LOCKED;
            UPDATE windlass.held x SET gate = 'over:' || substr(p_gate, 8) WHERE x.id = h.id AND FOUND;
            n := n + 1;
            CONTINUE;
        END IF;
        IF v_kind = 'budget' THEN
            -- The gate is budget:NAME/KEY.
            v_limit := coalesce(v_limit, windlass.bucket_tokens(substr(p_gate, 8, strpos(p_gate, '/') - 8),
                                                                substr(p_gate, strpos(p_gate, '/') + 1),
                                                                h.need));
        ELSIF v_task IS DISTINCT FROM h.task OR v_text IS DISTINCT FROM h.options::text THEN
            v_task := h.task;
            v_text := h.options::text;
            v_limit := windlass.gate_limit(v_kind, h.task, h.options);
        END IF;
        IF h.queue = ANY (v_shut) AND n < p_limit THEN
            -- No worker would run it: it gives up its slots and waits for its queue. See admit_unserved.
            PERFORM FROM windlass.held x WHERE x.id = h.id AND x.gate = p_gate FOR UPDATE SKIP LOCKED;
            IF FOUND THEN
                UPDATE windlass.held x SET gate = 'shut:' || h.queue WHERE x.id = h.id;
                PERFORM windlass.drop_passes(ARRAY[h.id], 'slots', true);
                n := n + 1;
            END IF;
            CONTINUE;
        END IF;
        IF v_taken + h.need > v_limit AND v_shut <> '{}' THEN
            v_taken := v_taken - windlass.hold_unserved(p_gate, v_shut);
        END IF;
        EXIT WHEN v_taken + h.need > v_limit;
        IF n >= p_limit THEN
            INSERT INTO windlass.changed_gate (gate) VALUES (p_gate);
            EXIT;
        END IF;
        v_lane := h.queue || '/' || h.priority;
        IF v_lane <> ALL (v_busy) AND windlass.try_lane(h.queue, h.priority) IS NULL THEN
            v_busy := v_busy || v_lane;
        END IF;
        PERFORM FROM windlass.held x WHERE x.id = h.id AND x.gate = p_gate AND v_lane <> ALL (v_busy)
            FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            CONTINUE WHEN v_kind <> 'order' OR NOT EXISTS (SELECT FROM windlass.held x
                                                            WHERE x.id = h.id AND x.gate = p_gate);
            -- Its locker may leave it there without a note.
            INSERT INTO windlass.changed_gate (gate) VALUES (p_gate);
            EXIT;
        END IF;
        n := n + 1;
        IF v_limit IS NOT NULL THEN
            INSERT INTO windlass.pass (gate, job, need, turn, enqueued_at, at)
            VALUES (p_gate, h.id, h.need, h.turn, h.enqueued_at, windlass.now()) ON CONFLICT DO NOTHING;
            v_taken := v_taken + h.need;
        END IF;
        IF v_kind = 'order' THEN
            INSERT INTO windlass.order_mark AS m (queue, key, position, at)
            VALUES (h.queue, h.options ->> 'ordering_key', 1, windlass.now())
            ON CONFLICT (queue, key) DO UPDATE SET position = m.position + 1;
        END IF;
        v_next := windlass.next_gate(h.id, h.queue, h.task, h.options);
        IF v_next IS NOT NULL THEN
            nexts := nexts || v_next;
            UPDATE windlass.held x SET gate = v_next, need = 1, turn = nextval('windlass.held_turn')
             WHERE x.id = h.id;
        ELSIF h.options ->> 'fair_key' IS NOT NULL
              AND NOT EXISTS (SELECT FROM windlass.pass p WHERE p.job = h.id AND p.gate LIKE 'budget:%') THEN
            -- A job that waited for tokens has had its turn.
            rings := rings || h;
            UPDATE windlass.held x SET gate = NULL, fair_key = x.options ->> 'fair_key',
                   turn = nextval('windlass.held_turn')
             WHERE x.id = h.id;
        ELSE
            DELETE FROM windlass.held x WHERE x.id = h.id;
            outs := outs || h;
        END IF;
    END LOOP;
END $$;

-- Moves jobs whose need was above the budget's burst back into the waiting list for tokens, once the budget
-- can hold that much; each to the place it had there, up to p_limit [F1].
-- Callers: admit_gates. May call: worker. Lock: the gate's, held by the caller; the rows it moves, without
-- waiting. The answers are those of admit_gate. What was noted of the gate is forgotten first, as there.
CREATE OR REPLACE FUNCTION windlass.admit_over(
    p_gate text, p_limit int, OUT n int, OUT nexts text[], OUT outs windlass.held[],
    OUT rings windlass.held[])
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_list text := 'budget:' || substr(p_gate, 6);
BEGIN
    outs := '{}';
    rings := '{}';
    nexts := ARRAY[v_list];
    DELETE FROM windlass.changed_gate s WHERE s.gate = p_gate;
    UPDATE windlass.held h SET gate = v_list
     WHERE h.id IN (SELECT x.id FROM windlass.held x
                     WHERE x.gate = p_gate
                       AND x.need <= (SELECT b.burst FROM windlass.budget b
                                       WHERE b.name = split_part(substr(p_gate, 6), '/', 1))
                     ORDER BY x.turn LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS n = ROW_COUNT;
END $$;

-- Lets jobs go on that were held because no worker served their queue, once one does: to the end of the
-- waiting list of their first gate, or (`outs`) into their lane [F3].
-- Callers: admit_gates. May call: worker. Lock: the gate's, held by the caller; the rows it moves, without
-- waiting. The answers are those of admit_gate. What was noted of the gate is forgotten first, as there.
CREATE OR REPLACE FUNCTION windlass.admit_unserved(
    p_gate text, p_limit int, OUT n int, OUT nexts text[], OUT outs windlass.held[],
    OUT rings windlass.held[])
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET jit = off AS $$
DECLARE
    h      windlass.held;
    v_next text;
BEGIN
    n := 0;
    nexts := '{}';
    outs := '{}';
    rings := '{}';
    DELETE FROM windlass.changed_gate s WHERE s.gate = p_gate;
    IF substr(p_gate, 6) = ANY (windlass.unserved_queues()) THEN
        RETURN;
    END IF;
    FOR h IN SELECT * FROM windlass.held x WHERE x.gate = p_gate ORDER BY x.turn LIMIT p_limit
                FOR UPDATE SKIP LOCKED LOOP
        n := n + 1;
        v_next := windlass.next_gate(h.id, h.queue, h.task, h.options);
        IF v_next IS NULL THEN
            DELETE FROM windlass.held x WHERE x.id = h.id;
            outs := outs || h;
        ELSE
            nexts := nexts || v_next;
            UPDATE windlass.held x SET gate = v_next, turn = nextval('windlass.held_turn') WHERE x.id = h.id;
        END IF;
    END LOOP;
    IF n = p_limit THEN
        INSERT INTO windlass.changed_gate (gate) VALUES (p_gate);
    END IF;
END $$;

-- One bounded step over gates that were not admitted at once: those with a noted change, waiting lists for
-- tokens, which open by time, and a few others in turn as a safety net. `next_in`: seconds until the next of
-- the waiting lists for tokens that it looked at may move.
-- Callers: the store's promote. May call: worker. Lock: the row that says how far it has come, without
-- waiting; those of admit_gates, without waiting.
CREATE OR REPLACE FUNCTION windlass.sweep_gates(p_limit int, OUT admitted int, OUT next_in float8)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    k       windlass.gate_look;
    v_gates text[];
    v_waiting text[];
BEGIN
    PERFORM windlass.require_read_committed();
    admitted := 0;
    -- Usually no job waits; then nothing is locked or written, and the commit needs no sync.
    IF NOT EXISTS (SELECT FROM windlass.held) AND NOT EXISTS (SELECT FROM windlass.changed_gate) THEN
        RETURN;
    END IF;
    SELECT * INTO k FROM windlass.gate_look FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    v_gates := ARRAY(SELECT DISTINCT s.gate FROM (SELECT x.gate FROM windlass.changed_gate x LIMIT 1000) AS s
                      LIMIT 200);
    v_waiting := windlass.next_waiting_lists('budget:', 'budget;', k.tokens, 100);
    k.tokens := coalesce(v_waiting[100], '');
    v_gates := v_gates || v_waiting;
    v_waiting := windlass.next_waiting_lists('', NULL, k.waiting_list, 20);
    k.waiting_list := coalesce(v_waiting[20], '');
    admitted := windlass.admit_gates(v_gates || v_waiting, p_limit);
    SELECT min(w.seconds) INTO next_in
      FROM (SELECT DISTINCT g FROM unnest(v_gates) AS g WHERE g LIKE 'budget:%') AS b
     CROSS JOIN LATERAL (SELECT windlass.gate_wait(b.g) AS seconds) AS w WHERE w.seconds < 'Infinity';
    UPDATE windlass.gate_look x SET tokens = k.tokens, waiting_list = k.waiting_list
     WHERE (x.tokens, x.waiting_list) IS DISTINCT FROM (k.tokens, k.waiting_list);
END $$;

-- ==== Fair keys ====

-- One bounded step: admits held jobs into lanes that have room, one of each fair key in turn [C3].
-- Callers: the store. May call: worker. Lock: those of admit_ring.
-- OFFSET 0 is a fence [rule 8]: without it the planner groups every held row to find the few lanes that have
-- some.
CREATE OR REPLACE FUNCTION windlass.admit(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    l       record;
    v_total int := 0;
BEGIN
    PERFORM windlass.require_read_committed();
    IF NOT EXISTS (SELECT FROM windlass.held h WHERE h.fair_key IS NOT NULL) THEN
        RETURN 0;
    END IF;
    FOR l IN SELECT q.name, n.priority
               FROM windlass.queue q CROSS JOIN LATERAL (SELECT DISTINCT priority FROM windlass.lane
                                                          WHERE queue = q.name) AS n
              WHERE EXISTS (SELECT FROM windlass.held h WHERE h.queue = q.name AND h.priority = n.priority
                               AND h.fair_key IS NOT NULL OFFSET 0) LOOP
        v_total := v_total + windlass.admit_ring(l.name, l.priority, p_limit - v_total);
    END LOOP;
    RETURN v_total;
END $$;

-- Admits held jobs of one queue and priority into their lane while that has room, one of each fair key in
-- turn, up to p_limit [C3]. Returns how many.
-- Callers: admit, admit_gates, the store after an enqueue and after a claim. May call: worker. Lock: the
-- ring's row, without waiting; then those of try_lane, of ring_step and of offer. The ring is walked in the
-- order of the keys, from the one served last: a key with a million jobs gets one turn like the others. No
-- producer ever writes to the ring, so producers do not wait for each other.
-- p_wanted: how many a claimer could take at once. The lane has room for as many, up to five windows: they
-- are claimed before they could be in anybody's way.
CREATE OR REPLACE FUNCTION windlass.admit_ring(
    p_queue text, p_priority smallint, p_limit int, p_wanted int DEFAULT 0) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    v_lane int := windlass.try_lane(p_queue, p_priority);
    v_ring text;
    v_next windlass.held[];
    v_rows windlass.held[] := '{}';
    v_room bigint;
    v_window int;
BEGIN
    PERFORM windlass.require_read_committed();
    IF v_lane IS NULL THEN
        RETURN 0;
    END IF;
    INSERT INTO windlass.ring (queue, priority, key) VALUES (p_queue, p_priority, '') ON CONFLICT DO NOTHING;
    SELECT key INTO v_ring FROM windlass.ring WHERE queue = p_queue AND priority = p_priority
       FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    SELECT greatest(q.window, least(p_wanted, 5 * q.window::bigint)) INTO v_window
      FROM windlass.queue q WHERE q.name = p_queue;
    v_room := least(v_window - windlass.lane_depth(v_lane), p_limit);
    IF v_room <= 0 THEN
        v_room := least(v_window - windlass.lane_committed_depth(v_lane, v_window), p_limit);
    END IF;
    -- Where some keys have few jobs, the rest of the room is for the others, in another step.
    WHILE v_room > 0 LOOP
        v_next := windlass.ring_step(p_queue, p_priority, v_ring, v_room::int);
        EXIT WHEN v_next IS NULL;
        v_rows := v_rows || v_next;
        v_room := v_room - cardinality(v_next);
        v_ring := v_next[cardinality(v_next)].fair_key;
    END LOOP;
    IF cardinality(v_rows) > 0 THEN
        PERFORM windlass.offer_held(v_rows);
        UPDATE windlass.ring SET key = v_ring WHERE queue = p_queue AND priority = p_priority;
    END IF;
    RETURN cardinality(v_rows);
END $$;

-- Takes up to p_limit jobs out of a ring, from the key after p_key on: the first of each key, then the second
-- of each, and so on, with as many of each as fill p_limit where all keys have that many [C3]. NULL: there
-- are none.
-- Callers: admit_ring. May call: worker. Lock: the rows it takes; locked ones are passed.
-- One index probe finds each key, however many jobs it has.
CREATE OR REPLACE FUNCTION windlass.ring_step(
    p_queue text, p_priority smallint, p_key text, p_limit int) RETURNS windlass.held[]
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
    v_keys text[];
    v_jobs windlass.held[];
BEGIN
    v_keys := ARRAY(
        WITH RECURSIVE keys (key, n) AS (
            (SELECT h.fair_key, 1 FROM windlass.held h
              WHERE h.queue = p_queue AND h.priority = p_priority AND h.fair_key > p_key
              ORDER BY h.fair_key, h.turn LIMIT 1)
             UNION ALL
            SELECT x.fair_key, k.n + 1
              FROM keys k CROSS JOIN LATERAL (
                SELECT h.fair_key FROM windlass.held h
                 WHERE h.queue = p_queue AND h.priority = p_priority AND h.fair_key > k.key
                 ORDER BY h.fair_key, h.turn LIMIT 1) AS x
             WHERE k.n < p_limit)
        SELECT k.key FROM keys k);
    IF cardinality(v_keys) < p_limit THEN
        v_keys := v_keys || ARRAY(
            WITH RECURSIVE keys (key, n) AS (
                (SELECT h.fair_key, cardinality(v_keys) + 1 FROM windlass.held h
                  WHERE h.queue = p_queue AND h.priority = p_priority AND h.fair_key <= p_key
                  ORDER BY h.fair_key, h.turn LIMIT 1)
                 UNION ALL
                SELECT x.fair_key, k.n + 1
                  FROM keys k CROSS JOIN LATERAL (
                    SELECT h.fair_key FROM windlass.held h
                     WHERE h.queue = p_queue AND h.priority = p_priority AND h.fair_key > k.key
                       AND h.fair_key <= p_key
                     ORDER BY h.fair_key, h.turn LIMIT 1) AS x
                 WHERE k.n < p_limit)
            SELECT k.key FROM keys k);
    END IF;
    IF v_keys = '{}' THEN
        RETURN NULL;
    END IF;
    SELECT array_agg(j.held ORDER BY j.no, j.i) INTO v_jobs
      FROM (SELECT x.held, x.no, k.i
              FROM unnest(v_keys) WITH ORDINALITY AS k (key, i)
             CROSS JOIN LATERAL (
                SELECT y.held, row_number() OVER (ORDER BY (y.held).turn) AS no
                  FROM (SELECT h AS held FROM windlass.held h
                         WHERE h.queue = p_queue AND h.priority = p_priority AND h.fair_key = k.key
                         ORDER BY h.turn LIMIT (p_limit - 1) / cardinality(v_keys) + 1
                           FOR UPDATE SKIP LOCKED) AS y) AS x
             ORDER BY x.no, k.i LIMIT p_limit) AS j;
    DELETE FROM windlass.held h WHERE h.id = ANY (ARRAY(SELECT u.id FROM unnest(v_jobs) AS u));
    RETURN v_jobs;
END $$;

-- ==== Into a lane ====

-- Offers held jobs, each in its lane, in order. They keep the time that they have waited.
-- Callers: admit_gates, admit_ring, retry_many. May call: worker. Lock: those of offer.
CREATE OR REPLACE FUNCTION windlass.offer_held(p_rows windlass.held[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    g record;
BEGIN
    FOR g IN
        SELECT u.queue, u.priority, count(*)::int AS n, array_agg(u.task ORDER BY u.i) AS tasks,
               array_agg(u.payload::text ORDER BY u.i) AS payloads,
               array_agg(u.options::text ORDER BY u.i) AS options, array_agg(u.id ORDER BY u.i) AS ids,
               array_agg(u.attempt ORDER BY u.i) AS attempts, array_agg(u.deaths ORDER BY u.i) AS deaths,
               array_agg(u.enqueued_at ORDER BY u.i) AS enqueued, array_agg(u.since ORDER BY u.i) AS since
          FROM unnest(p_rows) WITH ORDINALITY
            AS u (id, turn, since, enqueued_at, priority, attempt, deaths, queue, fair_key, task, payload,
                  options, gate, need, i)
         GROUP BY u.queue, u.priority ORDER BY u.queue
    LOOP
        PERFORM windlass.offer(windlass.ensure_lane(g.queue, g.priority), g.n, g.tasks, g.payloads, g.options,
                               g.ids, g.attempts, g.deaths, g.enqueued, g.since);
    END LOOP;
END $$;
