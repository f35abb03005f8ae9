-- Runs of a key: jobs of one waiting list that a worker is handed together and runs one after the other, in
-- one slot. Each has a pass of its own, and together they take one place at their gate, so that no limit is
-- exceeded whichever of them ends first, and how [F3] [F6].

-- How many places of a gate are taken: one by each pass, but only one by all those of a run.
-- Callers: claim_gated, claim_called_back. May call: worker. Plan: the caller's. Lock: none.
-- Its plan is cached, and fixed by the settings of those that call it.
CREATE OR REPLACE FUNCTION windlass.places_taken(p_gate text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT p.taken FROM windlass.gate_places(p_gate) AS p);
END $$;

-- The places of a gate: how many are taken, as places_taken says; leaving: somebody is giving one up, in a
-- transaction that may be open. Who does so may not see the job that joins the list meanwhile, so whoever
-- finds no room for that job leaves a note.
-- Callers: places_taken, admit_gate, admit_lists, enqueue_straight. May call: worker. Plan: the caller's.
-- Lock: none. It is inlined, so both are of one moment. Of a pass that was only locked, or removed in vain,
-- xmax is older.
CREATE OR REPLACE FUNCTION windlass.gate_places(p_gate text) RETURNS TABLE (taken bigint, leaving boolean)
LANGUAGE sql STABLE AS $$
    SELECT r.n + o.n, least(r.newest, o.newest) < 2147483647  -- that of no xmax
                      AND least(r.newest, o.newest) <= age(pg_snapshot_xmin(pg_current_snapshot())::xid)
      FROM (SELECT count(DISTINCT p.run) AS n, min(age(p.xmax)) AS newest FROM windlass.pass p
             WHERE p.gate = p_gate
               AND p.run >= coalesce((SELECT s.run FROM windlass.list_start s WHERE s.gate = p_gate
                                       ORDER BY s.no DESC LIMIT 1), 0)) AS r
     CROSS JOIN (SELECT count(*) AS n, min(age(p.xmax)) AS newest FROM windlass.pass p
                  WHERE p.gate = p_gate AND p.run IS NULL) AS o
$$;

-- ==== Making runs ====

-- Hands over what follows some jobs in the waiting lists of their gates: up to p_run behind each. They
-- are at the back of the lane now, with their passes; the caller writes their claim (p_claim).
-- Callers: hand_over, which holds the gates, as admit_lists or waiting_first have locked them. May call:
-- worker. Plan: generic, pinned, nested. Lock: the rows it takes, without waiting; those of offer.
-- It takes what stands first in a list, and stops short of a job that has another gate to pass or a limit of
-- its own, is a part, needs tokens (p_tokens: their tasks), has seen a worker die, or is of another lane; and
-- of one that somebody else has locked, or had: xmax tells, and is cheaper than a lock of our own. So nobody
-- is overtaken. Of a list from which several were let through they take those behind in turn. Where another
-- job of its run is left, none follows: it waits to be handed back.
-- A job that is in all things like one of those it follows is not judged again: its options are not parsed.
-- Who locks a row between the look and the delete is waited for for a moment only; then nobody follows.
CREATE OR REPLACE FUNCTION windlass.add_followers(
    p_lane windlass.lane, p_claim bigint, p_rows windlass.held[], p_run int, p_tokens text[])
RETURNS windlass.handed[]
LANGUAGE plpgsql AS $$
DECLARE
    v_before text := current_setting('lock_timeout');
    v_now    timestamptz := windlass.now();
    v_position regclass := p_lane.position;
    v_segment smallint;
    v_gone   int;
    v_found  windlass.handed[];
    v_gates  text[];
BEGIN
    IF p_run < 1 THEN
        RETURN '{}';
    END IF;
    LOCK TABLE ONLY windlass.ready IN ROW EXCLUSIVE MODE;
    v_segment := windlass.pin_segment();
    PERFORM set_config('lock_timeout', '2ms', true);
    WITH list AS MATERIALIZED (
        SELECT u.gate, k.kind, k.more, min(u.task) AS task, min(u.options::text) AS options,
               array_agg(p.run ORDER BY u.turn) AS runs,
               count(*)::int AS n
          FROM unnest(p_rows) WITH ORDINALITY
            AS u (id, turn, since, enqueued_at, priority, attempt, deaths, queue, fair_key, task, payload,
                  options, gate, need, replaces, i)
         CROSS JOIN LATERAL (SELECT split_part(u.gate, ':', 1) AS kind,
                                    '"(' || CASE split_part(u.gate, ':', 1)
                                            WHEN 'order' THEN 'concurrency_key|task_limit'
                                            WHEN 'key' THEN 'ordering_key|task_limit'
                                            WHEN 'task' THEN 'ordering_key|concurrency_key' END
                                        || '|fair_key|part|chunked|expires_at)"' AS more OFFSET 0) AS k
         CROSS JOIN LATERAL (SELECT x.run FROM windlass.pass x
                              WHERE x.job = u.id AND x.gate || '' = u.gate
                                AND NOT EXISTS (SELECT FROM windlass.pass o
                                                 WHERE o.gate = x.gate AND o.run = x.run AND o.job <> x.job)
                             OFFSET 0) AS p
         WHERE p.run IS NOT NULL AND k.more IS NOT NULL AND coalesce(u.options::text !~ k.more, true)
         GROUP BY u.gate, k.kind, k.more),
    next AS MATERIALIZED (
        SELECT x.*, l.runs[(x.no - 1) % l.n + 1] AS run, nextval(v_position) AS seq
          FROM list l
         CROSS JOIN LATERAL (
            -- A limit by setting, new since these were let through, makes the task another gate.
            SELECT windlass.limit_of(l.kind, l.options::json, t.concurrency, t.key_concurrency) AS most
              FROM (SELECT) AS one LEFT JOIN windlass.task_setting t ON t.name = l.task
             WHERE l.kind = 'task' OR t.concurrency IS NULL OFFSET 0) AS h
         CROSS JOIN LATERAL (
            SELECT y.*, row_number() OVER w AS no, bool_and(y.eligible) OVER w AS all_eligible
              FROM (SELECT v.ctid AS tid, v.id, v.turn, v.since, v.enqueued_at, v.attempt, v.task, v.payload,
                           v.options, v.gate, v.need,
                           v.deaths = 0 AND v.xmax = 0 AND v.replaces IS NULL AND v.queue = p_lane.queue
                           AND v.priority = p_lane.priority
                           AND CASE WHEN v.task = l.task AND v.options::text IS NOT DISTINCT FROM l.options
                               THEN true
                               ELSE v.task <> ALL (p_tokens) AND coalesce(v.options::text !~ l.more, true)
                                    AND windlass.abilities_of(v.options) = p_lane.abilities
                                    AND windlass.has_limit(l.kind, v.task, v.options, h.most) END AS eligible
                      FROM windlass.list_from(l.gate) AS s
                     CROSS JOIN windlass.held v
                     WHERE v.gate = l.gate AND v.turn >= s.turn ORDER BY v.turn LIMIT l.n * p_run) AS y
            WINDOW w AS (ORDER BY y.turn ROWS UNBOUNDED PRECEDING)) AS x
         WHERE x.all_eligible),
    gone AS (DELETE FROM windlass.held h USING next y WHERE h.ctid = y.tid RETURNING h.need),
    offered AS (
        INSERT INTO windlass.ready (segment, lane, seq, id, attempt, deaths, task, payload, options,
                                    offered_at, enqueued_at)
        SELECT v_segment, p_lane.id, g.seq, g.id, g.attempt, 0, g.task, g.payload, g.options, g.since,
               g.enqueued_at
          FROM next g),
    passed AS (
        INSERT INTO windlass.pass (gate, job, need, turn, enqueued_at, at, run)
        SELECT g.gate, g.id, g.need, g.turn, g.enqueued_at, v_now, g.run FROM next g)
    SELECT array_agg(ROW (p_lane.id, p_claim, g.seq, g.id, g.task, g.payload, g.options, g.attempt, 0,
                          p_lane.queue, p_lane.priority, date_part('epoch', g.enqueued_at),
                          date_part('epoch', g.since), g.run)::windlass.handed),
           (SELECT count(*) FROM gone), array_agg(g.gate) FILTER (WHERE g.gate LIKE 'order:%')
      INTO v_found, v_gone, v_gates FROM next g;
    PERFORM windlass.move_marks(v_gates, 1);
    PERFORM set_config('lock_timeout', v_before, true);
    IF v_gone < cardinality(v_found) THEN
        RAISE lock_not_available;  -- one has changed meanwhile, and those behind it must not overtake it
    END IF;
    RETURN coalesce(v_found, '{}');
EXCEPTION WHEN lock_not_available OR unique_violation THEN
    RETURN '{}';
END $$;

-- Whether a job behind a gate has no limit but this one.
-- Callers: add_followers. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.has_limit(p_kind text, p_task text, p_options json, p_most bigint)
RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
    t windlass.task_setting;
BEGIN
    SELECT * INTO t FROM windlass.task_setting x WHERE x.name = p_task;
    RETURN (p_kind = 'task' OR t.concurrency IS NULL)
       AND windlass.limit_of(p_kind, p_options, t.concurrency, t.key_concurrency) = p_most;
END $$;

-- ==== Breaking runs off ====

-- Puts a job of a run, whose attempt has ended and not for good, back into the waiting list of its gate, at
-- its turn, without a pass, instead of offering it again; false: it is to be offered or deferred like any
-- other.
-- Callers: finish_others, hand_back, for one job after the other in the order of their claim, after those of
-- the flush that have ended for good. May call: worker. Plan: generic, pinned. Lock: the rows it writes;
-- those of the run are written by nobody else: see worker_alone, and hand_back.
-- Of an ordering key the first that is left of the run keeps its place, and those behind it wait for it [F6];
-- unless one that stood before it was put back in this transaction.
-- Of another key, or a task, a job that is put off gives up its place as ever, and the last one that is left
-- takes it along; p_ended: the jobs that end in the same transaction.
CREATE OR REPLACE FUNCTION windlass.rejoin_list(
    p_job bigint, p_ready windlass.ready, p_attempt int, p_deaths int, p_delay float8, p_ended bigint[])
RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    p windlass.pass;
BEGIN
    SELECT * INTO p FROM windlass.pass x WHERE x.job = p_job AND x.run IS NOT NULL
     ORDER BY x.gate LIMIT 1;  -- that of its task, which it may have by a limit that is new, is the last
    IF NOT FOUND OR p_delay > 0 AND p.gate NOT LIKE 'order:%' THEN
        RETURN false;
    END IF;
    PERFORM FROM windlass.pass x
      WHERE x.gate = p.gate AND x.run = p.run
        AND (x.turn < p.turn OR p.gate NOT LIKE 'order:%' AND x.turn > p.turn AND x.job <> ALL (p_ended));
    IF NOT FOUND THEN
        -- The first is gone since those between were put back here: somebody has just cancelled it.
        PERFORM FROM windlass.held h
          WHERE h.id = ANY (string_to_array(current_setting('windlass.put_back', true), ',')::bigint[])
            AND p.gate LIKE 'order:%' AND h.gate = p.gate AND h.turn < p.turn;
    END IF;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM windlass.put_back(p, p_ready, p_attempt, p_deaths);
    RETURN true;
END $$;

-- Puts one job back into the waiting list whose pass it has, at its turn.
-- Callers: rejoin_list, break_runs. May call: worker. Plan: the caller's. Lock: the rows it writes. Its turn
-- stays: draw_turn must know, which would give it the one of this commit. It is ready from now on, like any
-- job whose attempt is over: by that the next run knows that it is not the first, and looks for steps [W1].
CREATE OR REPLACE FUNCTION windlass.put_back(
    p windlass.pass, p_ready windlass.ready, p_attempt int, p_deaths int) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('windlass.put_back',
                       concat_ws(',', nullif(current_setting('windlass.put_back', true), ''), p.job), true);
    PERFORM windlass.mark_gates_changed(ARRAY[p.gate], false, p.turn);
    DELETE FROM windlass.pass x WHERE x.job = p.job;
    PERFORM windlass.move_marks(ARRAY[p.gate], -1);
    PERFORM set_config('windlass.keeps_turn', 'on', true);
    INSERT INTO windlass.held (id, turn, since, enqueued_at, queue, priority, attempt, deaths, gate, need,
                               task, payload, options)
    SELECT p.job, p.turn, windlass.now(), windlass.enqueued_of(p_ready), l.queue, l.priority, p_attempt,
           p_deaths, p.gate, p.need, p_ready.task, p_ready.payload,
           windlass.unknown_since(p_ready.options, false)
      FROM windlass.lane l WHERE l.id = p_ready.lane;
    PERFORM set_config('windlass.keeps_turn', '', true);
END $$;

-- Breaks off runs that were handed over of tasks which have got a limit since: all but the first of each go
-- back to where they waited, since each must pass that gate, too, and others come between them there [F3].
-- Returns what stays.
-- Callers: handed_recheck, after the commit of the flush. May call: worker. Plan: pinned. Lock: mostly none;
-- else the worker's life row, as in claim_recheck; ACCESS SHARE on claim, as in finish.
CREATE OR REPLACE FUNCTION windlass.break_runs(p_worker bigint, p_handed windlass.handed[])
RETURNS windlass.handed[]
LANGUAGE plpgsql AS $$
DECLARE
    v_tasks text[] := windlass.limited_tasks(ARRAY(SELECT h.task FROM unnest(p_handed) AS h WHERE h.run > 0));
    v_back  bigint[];
BEGIN
    v_back := ARRAY(SELECT x.id
                      FROM (SELECT h.id, h.task, row_number() OVER (PARTITION BY h.run ORDER BY h.seq) AS no
                              FROM unnest(p_handed) AS h WHERE h.run > 0) AS x
                     WHERE x.no > 1 AND x.task = ANY (v_tasks));
    IF v_back = '{}' THEN
        RETURN p_handed;
    END IF;
    PERFORM windlass.worker_fence(p_worker);
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    INSERT INTO windlass.outcome (segment, claim, lane, flush, kind, seqs, n, at)
    SELECT c.segment, c.id, c.lane, -(SELECT count(*) FROM windlass.outcome o WHERE o.claim = c.id), 'held',
           u.seqs, u.n, windlass.now()
      FROM (SELECT h.lane, h.claim, range_agg(int8range(h.seq, h.seq + 1)) AS seqs, count(*) AS n
              FROM unnest(p_handed) AS h WHERE h.id = ANY (v_back) GROUP BY h.lane, h.claim) AS u
      JOIN windlass.claim c ON c.lane = u.lane AND c.id = u.claim;
    PERFORM windlass.put_back(p.pass, r.ready, (r.ready).attempt, (r.ready).deaths)
       FROM unnest(p_handed) AS h
      CROSS JOIN LATERAL (SELECT y AS ready FROM windlass.ready y WHERE y.lane = h.lane AND y.seq = h.seq
                           LIMIT 1) AS r
      CROSS JOIN LATERAL (SELECT x AS pass FROM windlass.pass x WHERE x.job = h.id AND x.run = h.run
                           ORDER BY x.gate LIMIT 1) AS p
      WHERE h.id = ANY (v_back);
    -- A concurrent count may give a pass to those that are back.
    INSERT INTO windlass.uncounted_task (task) SELECT unnest(v_tasks);
    RETURN ARRAY(SELECT h FROM unnest(p_handed) AS h WHERE h.id <> ALL (v_back));
END $$;
