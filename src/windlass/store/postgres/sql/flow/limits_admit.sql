-- Letting jobs through gates, and out of the ring of fair keys into their lanes.

-- ==== Gates ====

-- Lets jobs through these gates, and on through the gates behind them, while there is room. Returns how many
-- reached their lanes.
-- Callers: the store, right after a commit that may have made room or added a job; sweep_gates. May call:
-- worker. Plan: pinned. Lock: those of admit_through; then those of offer.
CREATE OR REPLACE FUNCTION windlass.admit_gates(p_gates text[], p_limit int, p_wait int DEFAULT 0) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    a record;
BEGIN
    PERFORM windlass.require_read_committed();
    SELECT * INTO a FROM windlass.admit_through(p_gates, p_limit, p_wait);
    PERFORM windlass.offer_held(a.outs);
    RETURN cardinality(a.outs)
         + coalesce((SELECT sum(windlass.admit_ring(r.queue, r.priority, p_limit, 0, r.abilities))
                       FROM (SELECT DISTINCT u.queue, u.priority,
                                    windlass.abilities_of(u.options) AS abilities
                               FROM unnest(a.rings) AS u) AS r), 0);
END $$;

-- Lets jobs through gates, each gate and then those behind it. Those that have passed their last one, and are
-- held no more, are for the caller to offer (`outs`); others wait for the turn of their fair key (`rings`).
-- Callers: admit_gates, admit_freed. May call: worker. Plan: generic, pinned, ordered, nested. Lock: those
-- gates, each waited for p_wait ms at most, in the order in which jobs pass them and then of names, so that
-- no two of these deadlock. Gates that it had to skip are noted for promote.
-- A pass given here is seen by all who take the gate's lock later: no two can give away the same room.
-- p_quick: only gates whose lists need no second look; `left_over` are the others, which are noted, too.
CREATE OR REPLACE FUNCTION windlass.admit_through(
    p_gates text[], p_limit int, p_wait int, p_quick boolean DEFAULT false, OUT outs windlass.held[],
    OUT rings windlass.held[], OUT left_over text[])
LANGUAGE plpgsql AS $$
DECLARE
    a       record;
    v_kind  text;
    v_gate  text;
    v_open  text[];
    v_todo  text[] := p_gates;
    v_moved int := 0;
    v_space int := ('windlass.held'::regclass::oid::bigint - 2147483648)::int;
BEGIN
    outs := '{}';
    rings := '{}';
    left_over := '{}';
    FOREACH v_kind IN ARRAY ARRAY['shut', 'over', 'budget', 'order', 'key', 'task'] LOOP
        CONTINUE WHEN ' ' || array_to_string(v_todo, ' ') NOT LIKE '% ' || v_kind || ':%';
        v_open := '{}';
        FOR v_gate IN SELECT DISTINCT g COLLATE "C" AS gate FROM unnest(v_todo) AS g
                       WHERE g LIKE v_kind || ':%'
                         AND (EXISTS (SELECT FROM windlass.list_from(g) AS s CROSS JOIN windlass.held h
                                       WHERE h.gate = g AND h.turn >= s.turn OFFSET 0)
                              OR EXISTS (SELECT FROM windlass.changed_gate c
                                          WHERE c.gate = g
                                            AND (c.gate, c.xid) >= (g, coalesce((
                                                SELECT s.seen FROM windlass.list_start s
                                                 WHERE s.gate = g ORDER BY s.no DESC LIMIT 1), '0'))
                                         OFFSET 0))
                       ORDER BY 1 LOOP
            IF pg_try_advisory_xact_lock(v_space, hashtext(v_gate))
               OR p_wait > 0 AND windlass.gate_lock(v_gate, p_wait) THEN
                v_open := v_open || v_gate;
            ELSE
                left_over := left_over || v_gate;
            END IF;
        END LOOP;
        CONTINUE WHEN v_open = '{}';
        IF v_kind IN ('order', 'key', 'task') THEN
            SELECT * INTO a FROM windlass.admit_lists(v_kind, v_open, p_limit - v_moved);
            v_moved := v_moved + a.n;
            v_todo := v_todo || a.nexts;
            outs := outs || a.outs;
            rings := rings || a.rings;
            v_open := a.rest;
        END IF;
        IF p_quick THEN
            left_over := left_over || v_open;
            CONTINUE;
        END IF;
        FOREACH v_gate IN ARRAY v_open LOOP
            IF v_kind = 'shut' THEN
                SELECT * INTO a FROM windlass.admit_unserved(v_gate, p_limit - v_moved);
            ELSIF v_kind = 'over' THEN
                SELECT * INTO a FROM windlass.admit_over(v_gate, p_limit - v_moved);
            ELSE
                SELECT * INTO a FROM windlass.admit_gate(v_gate, p_limit - v_moved);
            END IF;
            v_moved := v_moved + a.n;
            v_todo := v_todo || a.nexts;
            outs := outs || a.outs;
            rings := rings || a.rings;
        END LOOP;
    END LOOP;
    IF left_over <> '{}' THEN
        INSERT INTO windlass.changed_gate (gate) SELECT u FROM unnest(left_over) AS u;
    END IF;
END $$;

-- Lets jobs through the gates that a flush has freed, within its transaction, and offers them; those that it
-- can, it hands over to the flush's worker (see hand_over). `left_over`: gates that somebody else is at, or
-- that need a longer look, or more than 500 at once, since the server has a few thousand locks for everybody:
-- the caller admits them in a transaction of their own. They are noted for promote, in case the caller dies.
-- Callers: finish. May call: worker. Plan: the caller's. Lock: those of admit_through, without waiting; then
-- those of hand_over.
CREATE OR REPLACE FUNCTION windlass.admit_freed(
    p_worker bigint, p_gates text[], p_limit int, p_queues text[], p_rooms int[], p_tokens text[],
    p_runs int[], OUT left_over text[], OUT handed windlass.handed[])
LANGUAGE plpgsql AS $$
DECLARE
    a record;
BEGIN
    SELECT * INTO a FROM windlass.admit_through(p_gates[:500], p_limit, 0, true);
    left_over := a.left_over;
    IF cardinality(p_gates) > 500 THEN
        PERFORM windlass.mark_gates_changed(p_gates[501:], false);
        left_over := left_over || p_gates[501:];
    END IF;
    IF p_queues IS NULL THEN
        PERFORM windlass.offer_held(a.outs);
    ELSE
        handed := windlass.hand_over(p_worker, a.outs, p_queues, p_rooms, p_tokens, p_runs);
    END IF;
    PERFORM windlass.admit_ring(r.queue, r.priority, p_limit, 0, r.abilities)
       FROM (SELECT DISTINCT u.queue, u.priority, windlass.abilities_of(u.options) AS abilities
               FROM unnest(a.rings) AS u) AS r;
END $$;

-- Lets the first jobs of many waiting lists through at once, as admit_gate does it one by one: those lists in
-- which every job that may go has the same limit, is in a queue that is served, and is locked by nobody.
-- `rest`: the other gates that may have room, for admit_gate. Up to p_limit jobs; gates that this cuts off
-- are noted.
-- Callers: admit_through, for ordering keys, concurrency keys and tasks. May call: worker. Plan: the
-- caller's. Lock: the gates', held by the caller, whose settings fix its plans; the rows it moves, without
-- waiting.
-- What was noted of the gates is forgotten before the lists are read, so that a later note is not lost.
-- Each pass gets the number of a run, which others may join: see add_followers.
CREATE OR REPLACE FUNCTION windlass.admit_lists(
    p_kind text, p_gates text[], p_limit int, OUT n int, OUT nexts text[], OUT outs windlass.held[],
    OUT rings windlass.held[], OUT rest text[])
LANGUAGE plpgsql AS $$
DECLARE
    v_unserved text[] := '{}';  -- what no worker serves: queues, and what their jobs need
    -- Options by which a job has further to go, and whether a setting may be the reason, too.
    v_further text := CASE p_kind WHEN 'order' THEN '"(concurrency_key|task_limit|fair_key)"'
                                  WHEN 'key' THEN '"(task_limit|fair_key)"' ELSE '"fair_key"' END;
    v_onward boolean := p_kind <> 'task' AND EXISTS (SELECT FROM windlass.task_setting t
                                                      WHERE t.concurrency IS NOT NULL);
    v_ids    bigint[];  -- the jobs that may go
    v_gates  text[];    -- and the gate of each
    v_base   bigint := nextval('windlass.held_turn');  -- what is drawn from now on is above it
    v_noted  record;
    j        record;
BEGIN
    n := 0;
    nexts := '{}';
    outs := '{}';
    rings := '{}';
    v_noted := windlass.take_notes(p_gates);
    IF p_kind = 'task' AND EXISTS (SELECT FROM windlass.uncounted_task) THEN
        PERFORM windlass.count_running(substr(g, 6)) FROM unnest(p_gates) AS g;
    END IF;
    IF p_kind <> 'order' THEN
        v_unserved := windlass.unserved_places();
    END IF;
    -- One more than may go is looked at: where that one has another limit, it might go as well.
    WITH list AS MATERIALIZED (
        SELECT u.gate, u.since, h.most, h.most - p.taken AS room, p.leaving
          FROM (SELECT g.gate, least(f.turn, z.low) AS since
                  FROM unnest(p_gates) AS g (gate)
                 CROSS JOIN LATERAL windlass.list_from(g.gate) AS f
                  LEFT JOIN LATERAL (SELECT min(x.turn) AS low
                                       FROM unnest(v_noted.gates, v_noted.turns) AS x (gate, turn)
                                      WHERE x.gate = g.gate) AS z ON true OFFSET 0) AS u
         CROSS JOIN LATERAL (
            SELECT windlass.limit_of(p_kind, x.options, t.concurrency, t.key_concurrency) AS most
              FROM (SELECT y.task, y.options FROM windlass.held y
                     WHERE y.gate = u.gate AND y.turn >= u.since ORDER BY y.turn LIMIT 1) AS x
              LEFT JOIN windlass.task_setting t ON t.name = x.task) AS h
         CROSS JOIN LATERAL windlass.gate_places(u.gate) AS p),
    head AS MATERIALIZED (
        SELECT l.gate, l.room, l.leaving, f.*,
               l.most IS NULL OR f.differ OR l.room <= 0 AND v_unserved <> '{}' AS slow
          FROM list l
         CROSS JOIN LATERAL (
            SELECT array_agg(x.id) AS ids, min(x.lane) AS low, max(x.lane) AS high,
                   bool_or(x.options::text ~ v_further) AS onward,
                   bool_or(windlass.limit_of(p_kind, x.options, t.concurrency, t.key_concurrency)
                           IS DISTINCT FROM l.most OR substr(x.lane, 3) = ANY (v_unserved)
                           OR x.replaces IS NOT NULL) AS differ
              FROM (SELECT y.id, y.task, y.options, y.queue, y.replaces,
                           y.priority || ':' || windlass.place_of(y.queue,
                                                                  windlass.abilities_of(y.options)) AS lane
                      FROM windlass.held y WHERE y.gate = l.gate AND y.turn >= l.since ORDER BY y.turn
                     LIMIT greatest(least(l.room, p_limit), 0) + 1) AS x
              LEFT JOIN windlass.task_setting t ON t.name = x.task) AS f)
    SELECT array_agg(i.id) AS ids, array_agg(d.gate) AS gates, min(d.low) AS low, max(d.high) AS high,
           bool_or(d.onward) AS onward, ARRAY(SELECT s.gate FROM head s WHERE s.slow) AS slow,
           ARRAY(SELECT s.gate FROM head s
                  WHERE s.leaving AND NOT s.slow AND cardinality(s.ids) > s.room) AS again
      INTO j
      FROM head d CROSS JOIN LATERAL unnest(d.ids[:greatest(d.room, 0)]) AS i (id) WHERE NOT d.slow;
    rest := j.slow;
    INSERT INTO windlass.changed_gate (gate) SELECT g FROM unnest(j.again) AS g;
    v_ids := j.ids;
    v_gates := j.gates;
    IF cardinality(v_ids) > p_limit THEN
        INSERT INTO windlass.changed_gate (gate) SELECT DISTINCT g FROM unnest(v_gates[p_limit + 1:]) AS g;
        v_ids := v_ids[:p_limit];
        v_gates := v_gates[:p_limit];
    END IF;
    IF v_ids IS NULL OR v_ids = '{}' THEN
        PERFORM windlass.start_lists('{}', v_noted.gates, v_noted.turns, v_noted.seen, v_base)
          WHERE v_noted.gates IS NOT NULL;
        RETURN;
    END IF;
    IF (CASE WHEN j.low = j.high
             THEN windlass.lane_for(split_part(substr(j.low, 3), ' ', 1), left(j.low, 1)::smallint,
                                    split_part(j.low, ' ', 2)) IS NULL
             ELSE EXISTS (SELECT FROM (SELECT DISTINCT h.queue, h.priority,
                                              windlass.abilities_of(h.options) AS abilities
                                         FROM windlass.held h WHERE h.id = ANY (v_ids) OFFSET 0) AS l
                           WHERE windlass.lane_for(l.queue, l.priority, l.abilities) IS NULL) END) THEN
        rest := p_gates;
        PERFORM windlass.start_lists('{}', v_noted.gates, v_noted.turns, v_noted.seen, v_base)
          WHERE v_noted.gates IS NOT NULL;
        RETURN;
    END IF;
    IF v_onward OR j.onward THEN
        SELECT * INTO outs, nexts, rings FROM windlass.admit_onward(v_ids, v_gates);
        n := cardinality(outs) + cardinality(rings) + cardinality(nexts);
        nexts := ARRAY(SELECT DISTINCT g FROM unnest(nexts) AS g);
    ELSE
        WITH mine AS MATERIALIZED (
            SELECT m.id FROM unnest(v_ids, v_gates) AS u (id, gate)
             CROSS JOIN LATERAL (SELECT x.id FROM windlass.held x WHERE x.id = u.id AND x.gate = u.gate
                                    FOR UPDATE SKIP LOCKED) AS m),
        gone AS (DELETE FROM windlass.held h WHERE h.id = ANY (ARRAY(SELECT m.id FROM mine m))
              RETURNING h AS job),
        passed AS (
            INSERT INTO windlass.pass (gate, job, need, turn, enqueued_at, at, run)
            SELECT (g.job).gate, (g.job).id, (g.job).need, (g.job).turn, (g.job).enqueued_at, windlass.now(),
                   nextval('windlass.held_turn')
              FROM gone g
            ON CONFLICT DO NOTHING)
        SELECT coalesce(array_agg(g.job ORDER BY (g.job).gate, (g.job).turn), '{}') INTO outs FROM gone g;
        n := cardinality(outs);
    END IF;
    IF n < cardinality(v_ids) THEN
        -- Somebody has one of them: admit_gate knows who may overtake it.
        rest := rest || ARRAY(SELECT DISTINCT u.gate FROM unnest(v_ids, v_gates) AS u (id, gate)
                               WHERE NOT EXISTS (SELECT FROM windlass.pass p
                                                  WHERE p.job = u.id AND p.gate || '' = u.gate OFFSET 0));
    END IF;
    IF p_kind = 'order' THEN
        PERFORM windlass.move_marks(ARRAY(SELECT u.gate FROM unnest(v_gates) AS u (gate)
                                           WHERE u.gate <> ALL (rest)), 1);
    END IF;
    -- Where a list begins is written each time, once it was: for lists that live long. Elsewhere it costs
    -- less to walk over a few jobs that are gone.
    v_gates := ARRAY(SELECT g.gate
                       FROM (SELECT u.gate, bool_or(hashint8(u.id) & 15 = 0) AS drawn
                               FROM unnest(v_ids, v_gates) AS u (id, gate) GROUP BY u.gate OFFSET 0) AS g
                      WHERE g.drawn
                         OR (SELECT s.no FROM windlass.list_start s WHERE s.gate = g.gate
                              ORDER BY s.no DESC LIMIT 1) IS NOT NULL);
    IF v_gates <> '{}' OR v_noted.gates IS NOT NULL THEN
        PERFORM windlass.start_lists(v_gates, v_noted.gates, v_noted.turns, v_noted.seen, v_base);
    END IF;
END $$;

-- Gives jobs of waiting lists the pass of their gate, and moves each on: to the list of its next gate
-- (`nexts`, one for each), to the ring of its fair key (`rings`), or out of the lists (`outs`).
-- Callers: admit_lists, where some have further to go. May call: worker. Plan: the caller's. Lock: the
-- gates', held by the caller; the rows it moves, without waiting.
CREATE OR REPLACE FUNCTION windlass.admit_onward(
    p_ids bigint[], p_gates text[], OUT outs windlass.held[], OUT nexts text[], OUT rings windlass.held[])
LANGUAGE plpgsql AS $$
DECLARE
    v_on    bigint[];
    v_fair  bigint[];
    v_turns bigint[];
BEGIN
    -- Gate by gate, as admit_gate would let them in.
    SELECT coalesce(array_agg(h.job ORDER BY (h.job).gate, (h.job).turn), '{}') INTO outs
      FROM unnest(p_ids, p_gates) AS u (id, gate)
     CROSS JOIN LATERAL (SELECT x AS job FROM windlass.held x WHERE x.id = u.id AND x.gate = u.gate
                            FOR UPDATE SKIP LOCKED) AS h;
    INSERT INTO windlass.pass (gate, job, need, turn, enqueued_at, at, run)
    SELECT o.gate, o.id, o.need, o.turn, o.enqueued_at, windlass.now(), nextval('windlass.held_turn')
      FROM unnest(outs) AS o
    ON CONFLICT DO NOTHING;
    -- A job that waited for tokens has had its turn in the ring.
    SELECT coalesce(array_agg(x.id) FILTER (WHERE x.gate IS NOT NULL), '{}'),
           coalesce(array_agg(x.gate) FILTER (WHERE x.gate IS NOT NULL), '{}'),
           coalesce(array_agg(x.id) FILTER (WHERE x.gate IS NULL AND x.fair), '{}')
      INTO v_on, nexts, v_fair
      FROM (SELECT o.id, windlass.next_gate(o.id, o.queue, o.task, o.options) AS gate,
                   o.options ->> 'fair_key' IS NOT NULL
                   AND NOT EXISTS (SELECT FROM windlass.pass p
                                    WHERE p.job = o.id AND p.gate LIKE 'budget:%' OFFSET 0) AS fair
              FROM unnest(outs) AS o OFFSET 0) AS x;
    -- They are updated in the order of their ids, and keep that of their turns.
    v_turns := ARRAY(SELECT nextval('windlass.held_turn') FROM unnest(v_on));
    UPDATE windlass.held h SET gate = nexts[array_position(v_on, h.id)], need = 1,
           turn = v_turns[array_position(v_on, h.id)]
     WHERE h.id = ANY (v_on);
    INSERT INTO windlass.changed_gate (gate, turn)
    SELECT u.gate, min(u.turn) FROM unnest(nexts, v_turns) AS u (gate, turn) GROUP BY u.gate;
    v_turns := ARRAY(SELECT nextval('windlass.held_turn') FROM unnest(v_fair));
    UPDATE windlass.held h SET gate = NULL, fair_key = h.options ->> 'fair_key',
           turn = v_turns[array_position(v_fair, h.id)]
     WHERE h.id = ANY (v_fair);
    rings := ARRAY(SELECT o FROM unnest(outs) AS o WHERE o.id = ANY (v_fair));
    outs := ARRAY(SELECT o FROM unnest(outs) AS o WHERE o.id <> ALL (v_on || v_fair));
    DELETE FROM windlass.held h WHERE h.id = ANY (ARRAY(SELECT o.id FROM unnest(outs) AS o));
END $$;

-- Lets the first jobs of a gate's waiting list through while there is room for them, up to p_limit [F1] [F3]
-- [F6]. Each gets its pass, and goes on to the waiting list of its next gate (`nexts`), to the ring of its
-- fair key (`rings`), or (`outs`) into its lane.
-- Callers: admit_through. May call: worker. Plan: pinned, ordered. Lock: the gate's, held by the caller; the
-- rows it moves, and lanes that must be declared, without waiting. In the waiting list of an ordering key no
-- job overtakes a locked one, nor one that has yet to replace another.
-- The gate's note is removed before the list is read, so that a later note is not lost.
CREATE OR REPLACE FUNCTION windlass.admit_gate(
    p_gate text, p_limit int, OUT n int, OUT nexts text[], OUT outs windlass.held[],
    OUT rings windlass.held[])
LANGUAGE plpgsql AS $$
DECLARE
    h          windlass.held;
    v_kind     text := split_part(p_gate, ':', 1);
    v_task     text;    -- task and options of the job before: the limit of one like it is known
    v_options  text;
    v_limit    bigint;  -- how many jobs may be beyond the gate, or how many tokens there are
    v_taken    bigint;  -- how many of these are gone
    v_budget   text := split_part(substr(p_gate, 8), '/', 1);  -- of budget:NAME/KEY
    v_key      text := substr(p_gate, strpos(p_gate, '/') + 1);
    v_burst    float8;
    v_unserved text[] := '{}';  -- what no worker serves: queues, and what their jobs need
    v_place    text;            -- the same of this job
    v_busy     text[] := '{}';  -- lanes that were waited for in vain
    v_lane     text;
    v_next     text;
    v_locked   boolean := false;  -- somebody else has a job of the list
    v_full     boolean := false;  -- there is no room for the first that is left
    v_leaving  boolean;
    v_turn     bigint;
    v_from     bigint;
    v_base     bigint := nextval('windlass.held_turn');  -- what is drawn from now on is above it
    v_noted    record;
BEGIN
    n := 0;
    nexts := '{}';
    outs := '{}';
    rings := '{}';
    v_noted := windlass.take_notes(ARRAY[p_gate]);
    SELECT least(f.turn, v_noted.turns[1]) INTO v_from FROM windlass.list_from(p_gate) AS f;
    IF v_kind = 'task' THEN
        PERFORM windlass.count_running(substr(p_gate, 6));
    END IF;
    IF v_kind = 'budget' THEN
        v_taken := windlass.promised_tokens(p_gate);
    ELSE
        SELECT p.taken, p.leaving INTO v_taken, v_leaving FROM windlass.gate_places(p_gate) AS p;
    END IF;
    IF v_kind IN ('key', 'task') THEN
        v_unserved := windlass.unserved_places();
    END IF;
    IF v_kind = 'budget' THEN
        SELECT b.burst INTO v_burst FROM windlass.budget b WHERE b.name = v_budget;
        PERFORM windlass.bucket_resume(v_budget, v_key);
    END IF;
    FOR h IN SELECT * FROM windlass.held x WHERE x.gate = p_gate AND x.turn >= v_from
              ORDER BY x.turn LOOP
        EXIT WHEN h.replaces IS NOT NULL;  -- replace_step calls when it may go
        IF h.need > v_burst AND n < p_limit THEN
            -- Its budget can never hold that much: it steps aside, keeping its turn, and holds up nobody. See
            -- admit_over.
            PERFORM FROM windlass.held x WHERE x.id = h.id AND x.gate = p_gate FOR UPDATE SKIP LOCKED;
            UPDATE windlass.held x SET gate = 'over:' || substr(p_gate, 8) WHERE x.id = h.id AND FOUND;
            n := n + 1;
            CONTINUE;
        END IF;
        IF v_kind = 'budget' THEN
            IF v_limit IS NULL THEN
                v_limit := windlass.bucket_tokens(v_budget, v_key, h.need, NULL, true);
                -- Else the claim would put it aside again, for as long as somebody keeps the bucket.
                IF v_limit >= v_taken + h.need AND NOT windlass.bucket_is_free(v_budget, v_key) THEN
                    v_limit := 0;
                END IF;
            END IF;
        ELSIF v_task IS DISTINCT FROM h.task OR v_options IS DISTINCT FROM h.options::text THEN
            v_task := h.task;
            v_options := h.options::text;
            v_limit := windlass.gate_limit(v_kind, h.task, h.options);
        END IF;
        v_place := windlass.place_of(h.queue, windlass.abilities_of(h.options));
        IF v_place = ANY (v_unserved) AND n < p_limit THEN
            -- No worker would run it: it gives up its slots and waits for its queue. See admit_unserved.
            PERFORM FROM windlass.held x WHERE x.id = h.id AND x.gate = p_gate FOR UPDATE SKIP LOCKED;
            IF FOUND THEN
                UPDATE windlass.held x SET gate = 'shut:' || v_place WHERE x.id = h.id;
                PERFORM windlass.drop_passes(ARRAY[h.id], 'slots', true);
                n := n + 1;
            END IF;
            CONTINUE;
        END IF;
        IF v_taken + h.need > v_limit AND v_unserved <> '{}' THEN
            v_taken := v_taken - windlass.hold_unserved(p_gate, v_unserved);
        END IF;
        v_full := v_taken + h.need > v_limit;
        EXIT WHEN v_full;
        IF n >= p_limit THEN
            INSERT INTO windlass.changed_gate (gate) VALUES (p_gate);
            EXIT;
        END IF;
        v_lane := h.priority || ':' || v_place;
        IF v_lane <> ALL (v_busy)
           AND windlass.try_lane(h.queue, h.priority, windlass.abilities_of(h.options)) IS NULL THEN
            v_busy := v_busy || v_lane;
        END IF;
        PERFORM FROM windlass.held x WHERE x.id = h.id AND x.gate = p_gate AND v_lane <> ALL (v_busy)
            FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            CONTINUE WHEN NOT EXISTS (SELECT FROM windlass.held x WHERE x.id = h.id AND x.gate = p_gate);
            -- Its locker may leave it there without a note, and so may who holds its lane.
            v_locked := true;
            EXIT WHEN v_kind = 'order';
            CONTINUE;
        END IF;
        n := n + 1;
        IF v_limit IS NOT NULL THEN
            INSERT INTO windlass.pass (gate, job, need, turn, enqueued_at, at)
            VALUES (p_gate, h.id, h.need, h.turn, h.enqueued_at, windlass.now()) ON CONFLICT DO NOTHING;
            v_taken := v_taken + h.need;
        END IF;
        IF v_kind = 'order' THEN
            PERFORM windlass.move_marks(ARRAY[p_gate], 1);
        END IF;
        v_next := windlass.next_gate(h.id, h.queue, h.task, h.options);
        IF v_next IS NOT NULL THEN
            nexts := nexts || v_next;
            UPDATE windlass.held x SET gate = v_next, need = 1, turn = nextval('windlass.held_turn')
             WHERE x.id = h.id RETURNING x.turn INTO v_turn;
            PERFORM windlass.mark_gates_changed(ARRAY[v_next], false, v_turn);
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
    IF v_locked AND coalesce(v_taken < v_limit, true) OR v_full AND v_leaving THEN
        INSERT INTO windlass.changed_gate (gate) VALUES (p_gate);
    END IF;
    IF v_kind IN ('order', 'key', 'task') AND (n > 0 OR v_noted.gates IS NOT NULL) THEN
        PERFORM windlass.start_lists(ARRAY[p_gate], v_noted.gates, v_noted.turns, v_noted.seen, v_base);
    END IF;
END $$;

-- Moves jobs whose need was above the budget's burst back into the waiting list for tokens, once the budget
-- can hold that much; each to the place it had there, up to p_limit [F1].
-- Callers: admit_through. May call: worker. Plan: pinned. Lock: the gate's, held by the caller; the rows it
-- moves, without waiting. The answers are those of admit_gate. What was noted of the gate is forgotten first,
-- as there.
CREATE OR REPLACE FUNCTION windlass.admit_over(
    p_gate text, p_limit int, OUT n int, OUT nexts text[], OUT outs windlass.held[],
    OUT rings windlass.held[])
LANGUAGE plpgsql AS $$
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
-- Callers: admit_through. May call: worker. Plan: pinned, ordered. Lock: the gate's, held by the caller; the
-- rows it moves, without waiting. The answers are those of admit_gate. What was noted of the gate is
-- forgotten first, as there.
CREATE OR REPLACE FUNCTION windlass.admit_unserved(
    p_gate text, p_limit int, OUT n int, OUT nexts text[], OUT outs windlass.held[],
    OUT rings windlass.held[])
LANGUAGE plpgsql AS $$
DECLARE
    h      windlass.held;
    v_next text;
    v_turn bigint;
BEGIN
    n := 0;
    nexts := '{}';
    outs := '{}';
    rings := '{}';
    DELETE FROM windlass.changed_gate s WHERE s.gate = p_gate;
    IF substr(p_gate, 6) = ANY (windlass.unserved_places()) THEN
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
            UPDATE windlass.held x SET gate = v_next, turn = nextval('windlass.held_turn') WHERE x.id = h.id
            RETURNING x.turn INTO v_turn;
            PERFORM windlass.mark_gates_changed(ARRAY[v_next], false, v_turn);
        END IF;
    END LOOP;
    IF n = p_limit THEN
        INSERT INTO windlass.changed_gate (gate) VALUES (p_gate);
    END IF;
END $$;

-- One bounded step over gates that were not admitted at once: those with a noted change, waiting lists for
-- tokens, which open by time, and every ten seconds a few others in turn as a safety net. `next_in`: seconds
-- until the next of the waiting lists for tokens that it looked at may move. Notes are read from the oldest
-- that was there the last time: under an open snapshot those that are gone would be walked over again.
-- Callers: the store's promote. May call: worker. Plan: pinned, ordered. Lock: the row that says how far it
-- has come, without waiting; those of admit_gates, without waiting.
CREATE OR REPLACE FUNCTION windlass.sweep_gates(p_limit int, OUT admitted int, OUT next_in float8)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    k       windlass.gate_look;
    v_gates text[];
    v_waiting text[];
BEGIN
    PERFORM windlass.require_read_committed();
    admitted := 0;
    -- Usually no job waits; then nothing is locked or written, and the commit needs no sync.
    IF (SELECT h.id FROM windlass.held h ORDER BY h.id DESC LIMIT 1) IS NULL
       AND NOT EXISTS (SELECT FROM windlass.changed_gate c
                        WHERE c.xid >= (SELECT x.noted FROM windlass.gate_look x)) THEN
        RETURN;
    END IF;
    SELECT * INTO k FROM windlass.gate_look FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    v_gates := ARRAY(SELECT DISTINCT s.gate
                       FROM (SELECT x.gate FROM windlass.changed_gate x WHERE x.xid >= k.noted
                              ORDER BY x.xid LIMIT 1000) AS s LIMIT 200);
    v_waiting := windlass.next_waiting_lists('budget:', 'budget;', k.tokens, 100);
    k.tokens := coalesce(v_waiting[100], '');
    v_gates := v_gates || v_waiting;
    v_waiting := '{}';
    IF k.looked_at NOT BETWEEN windlass.now() - interval '10 seconds' AND windlass.now() THEN
        v_waiting := windlass.next_waiting_lists('', NULL, k.waiting_list, 20);
        k.waiting_list := coalesce(v_waiting[20], '');
        k.looked_at := windlass.now();
    END IF;
    admitted := windlass.admit_gates(v_gates || v_waiting, p_limit);
    -- Where there are tokens and still nobody could go, somebody may keep the bucket, for who knows how long.
    SELECT min(CASE WHEN w.seconds <= 0.001
                         AND NOT windlass.bucket_is_free(split_part(substr(b.g, 8), '/', 1),
                                                         substr(b.g, strpos(b.g, '/') + 1))
                    THEN 0.1 ELSE w.seconds END) INTO next_in
      FROM (SELECT DISTINCT g FROM unnest(v_gates) AS g WHERE g LIKE 'budget:%') AS b
     CROSS JOIN LATERAL (SELECT windlass.gate_wait(b.g) AS seconds) AS w WHERE w.seconds < 'Infinity';
    SELECT least(pg_snapshot_xmin(pg_current_snapshot()), c.xid) INTO k.noted
      FROM (SELECT (SELECT x.xid FROM windlass.changed_gate x WHERE x.xid >= k.noted
                     ORDER BY x.xid LIMIT 1) AS xid) AS c;
    UPDATE windlass.gate_look x
       SET tokens = k.tokens, waiting_list = k.waiting_list, looked_at = k.looked_at, noted = k.noted
     WHERE (x.tokens, x.waiting_list, x.looked_at, x.noted)
           IS DISTINCT FROM (k.tokens, k.waiting_list, k.looked_at, k.noted);
END $$;

-- ==== Fair keys ====

-- One bounded step: admits held jobs into lanes that have room, one of each fair key in turn [C3].
-- Callers: the store. May call: worker. Plan: pinned, ordered. Lock: those of admit_ring.
-- OFFSET 0 is a fence [rule 8]: without it the planner groups every held row to find the few lanes that have
-- some.
CREATE OR REPLACE FUNCTION windlass.admit(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    l       record;
    v_total int := 0;
BEGIN
    PERFORM windlass.require_read_committed();
    IF NOT EXISTS (SELECT FROM windlass.held h WHERE h.fair_key IS NOT NULL) THEN
        RETURN 0;
    END IF;
    FOR l IN SELECT n.queue, n.priority, n.abilities
               FROM windlass.queue q CROSS JOIN LATERAL (SELECT * FROM windlass.lane x
                                                          WHERE x.queue = q.name OFFSET 0) AS n
              WHERE EXISTS (SELECT FROM windlass.held h WHERE h.queue = q.name AND h.priority = n.priority
                               AND windlass.abilities_of(h.options) = n.abilities
                               AND h.fair_key IS NOT NULL OFFSET 0) LOOP
        v_total := v_total + windlass.admit_ring(l.queue, l.priority, p_limit - v_total, 0, l.abilities);
    END LOOP;
    RETURN v_total;
END $$;

-- Admits held jobs of one ring, that of a queue, priority and abilities, into their lane while that has room,
-- one of each fair key in turn, up to p_limit [C3]. Returns how many.
-- Callers: admit, admit_gates, admit_freed, the store after an enqueue and after a claim. May call: worker.
-- Plan: pinned, ordered. Lock: the ring's row, without waiting; then those of try_lane, of ring_step and of
-- offer. The ring is walked in the order of the keys, from the one served last: a key with a million jobs
-- gets one turn like the others. No producer ever writes to the ring, so producers do not wait for each
-- other.
-- p_wanted: how many a claimer could take at once. The lane has room for as many, up to five windows: they
-- are claimed before they could be in anybody's way.
CREATE OR REPLACE FUNCTION windlass.admit_ring(
    p_queue text, p_priority smallint, p_limit int, p_wanted int DEFAULT 0, p_abilities text DEFAULT '')
RETURNS int
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_lane int := windlass.try_lane(p_queue, p_priority, p_abilities);
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
    INSERT INTO windlass.ring (queue, priority, abilities, key) VALUES (p_queue, p_priority, p_abilities, '')
        ON CONFLICT DO NOTHING;
    SELECT key INTO v_ring FROM windlass.ring
     WHERE queue = p_queue AND priority = p_priority AND abilities = p_abilities FOR UPDATE SKIP LOCKED;
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
        v_next := windlass.ring_step(p_queue, p_priority, p_abilities, v_ring, v_room::int);
        EXIT WHEN v_next IS NULL;
        v_rows := v_rows || v_next;
        v_room := v_room - cardinality(v_next);
        v_ring := v_next[cardinality(v_next)].fair_key;
    END LOOP;
    IF cardinality(v_rows) > 0 THEN
        PERFORM windlass.offer_held(v_rows);
        UPDATE windlass.ring SET key = v_ring
         WHERE queue = p_queue AND priority = p_priority AND abilities = p_abilities;
    END IF;
    RETURN cardinality(v_rows);
END $$;

-- Takes up to p_limit jobs out of a ring, from the key after p_key on: the first of each key, then the second
-- of each, and so on, with as many of each as fill p_limit where all keys have that many [C3]. NULL: there
-- are none.
-- Callers: admit_ring. May call: worker. Plan: generic, pinned, nested. Lock: the rows it takes; locked ones
-- are passed.
-- One index probe finds each key, however many jobs it has.
CREATE OR REPLACE FUNCTION windlass.ring_step(
    p_queue text, p_priority smallint, p_abilities text, p_key text, p_limit int) RETURNS windlass.held[]
LANGUAGE plpgsql AS $$
DECLARE
    v_keys text[];
    v_jobs windlass.held[];
BEGIN
    v_keys := ARRAY(
        WITH RECURSIVE keys (key, n) AS (
            (SELECT h.fair_key, 1 FROM windlass.held h
              WHERE h.queue = p_queue AND h.priority = p_priority
                AND windlass.abilities_of(h.options) = p_abilities AND h.fair_key > p_key
              ORDER BY h.fair_key, h.turn LIMIT 1)
             UNION ALL
            SELECT x.fair_key, k.n + 1
              FROM keys k CROSS JOIN LATERAL (
                SELECT h.fair_key FROM windlass.held h
                 WHERE h.queue = p_queue AND h.priority = p_priority
                   AND windlass.abilities_of(h.options) = p_abilities AND h.fair_key > k.key
                 ORDER BY h.fair_key, h.turn LIMIT 1) AS x
             WHERE k.n < p_limit)
        SELECT k.key FROM keys k);
    IF cardinality(v_keys) < p_limit THEN
        v_keys := v_keys || ARRAY(
            WITH RECURSIVE keys (key, n) AS (
                (SELECT h.fair_key, cardinality(v_keys) + 1 FROM windlass.held h
                  WHERE h.queue = p_queue AND h.priority = p_priority
                    AND windlass.abilities_of(h.options) = p_abilities AND h.fair_key <= p_key
                  ORDER BY h.fair_key, h.turn LIMIT 1)
                 UNION ALL
                SELECT x.fair_key, k.n + 1
                  FROM keys k CROSS JOIN LATERAL (
                    SELECT h.fair_key FROM windlass.held h
                     WHERE h.queue = p_queue AND h.priority = p_priority
                       AND windlass.abilities_of(h.options) = p_abilities AND h.fair_key > k.key
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
                         WHERE h.queue = p_queue AND h.priority = p_priority
                           AND windlass.abilities_of(h.options) = p_abilities AND h.fair_key = k.key
                         ORDER BY h.turn LIMIT (p_limit - 1) / cardinality(v_keys) + 1
                           FOR UPDATE SKIP LOCKED) AS y) AS x
             ORDER BY x.no, k.i LIMIT p_limit) AS j;
    DELETE FROM windlass.held h WHERE h.id = ANY (ARRAY(SELECT u.id FROM unnest(v_jobs) AS u));
    RETURN v_jobs;
END $$;

-- ==== Into a lane ====

-- Offers held jobs, each in its lane, in order. They keep the time that they have waited.
-- Callers: admit_gates, admit_freed, hand_over, admit_ring, retry_many. May call: worker. Plan: the caller's.
-- Lock: those of offer.
CREATE OR REPLACE FUNCTION windlass.offer_held(p_rows windlass.held[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    g record;
BEGIN
    FOR g IN
        SELECT u.queue, u.priority, windlass.abilities_of(u.options) AS abilities, count(*) AS n
          FROM unnest(p_rows) AS u
         GROUP BY u.queue, u.priority, windlass.abilities_of(u.options) ORDER BY u.queue
    LOOP
        PERFORM windlass.offer_rows(
            windlass.ensure_lane(g.queue, g.priority, g.abilities),
            CASE WHEN g.n = cardinality(p_rows) THEN p_rows
                 ELSE ARRAY(SELECT p_rows[i] FROM generate_series(1, cardinality(p_rows)) AS i
                             WHERE p_rows[i].queue = g.queue AND p_rows[i].priority = g.priority
                               AND windlass.abilities_of(p_rows[i].options) = g.abilities
                             ORDER BY i) END);
    END LOOP;
END $$;
