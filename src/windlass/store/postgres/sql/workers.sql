-- Workers: register, heartbeat, fence, what they hold, and how it is taken back when they die or leave.

-- ==== A worker's life ====

-- Makes a worker known and alive; an id that was ever used is a unique violation.
-- Callers: the store. May call: worker. Plan: free. Lock: the row of meta FOR KEY SHARE,
-- so that no epoch begins that misses it.
CREATE OR REPLACE FUNCTION windlass.register(
    p_id bigint, p_label text, p_host text, p_pid int, p_queues text[], p_lease float8 DEFAULT 30,
    p_tasks jsonb DEFAULT '{}', p_abilities text[] DEFAULT '{}')
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF p_id <= 0 THEN
        RAISE EXCEPTION 'a worker id must be positive' USING ERRCODE = 'WL005';
    END IF;
    PERFORM windlass.check_epoch();
    INSERT INTO windlass.worker_life (id, epoch)
    SELECT p_id, m.epoch FROM windlass.meta m WHERE m.single FOR KEY SHARE;
    INSERT INTO windlass.worker_heartbeat (id, at) VALUES (p_id, windlass.now());
    INSERT INTO windlass.worker (id, label, host, pid, queues, started_at, lease, tasks, abilities)
    VALUES (p_id, p_label, p_host, p_pid, p_queues, windlass.now(), p_lease, p_tasks, p_abilities);
    -- Jobs may wait for a worker that serves their queue, and is able to run them.
    IF EXISTS (SELECT FROM windlass.held h WHERE h.gate >= 'shut:' AND h.gate < 'shut;') THEN
        PERFORM windlass.mark_gates_changed(windlass.next_waiting_lists('shut:', 'shut;', '', 1000), true);
    END IF;
END $$;

-- The queue that live workers say a task goes to; NULL where none of them knows it [E5].
-- Callers: users, the store, producer adapters. May call: worker, producer, reader. Plan: free. Lock: none.
-- Of workers that do not agree it chooses as core/routing.py does.
--   SELECT windlass.enqueue('mail.send', '{}',
--                           queue => coalesce(windlass.published_queue('mail.send'), 'default'));
CREATE OR REPLACE FUNCTION windlass.published_queue(p_task text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT w.tasks ->> p_task
      FROM windlass.worker_life l JOIN windlass.worker w USING (id)
     WHERE l.alive AND w.tasks ? p_task
     ORDER BY w.tasks ->> p_task = ANY (w.queues) DESC, w.started_at DESC,
              (w.tasks ->> p_task) COLLATE "C" DESC
     LIMIT 1
$$;

-- The names of the tasks that live workers know, for the question which one a misspelt name means [E5].
-- Callers: the store. May call: worker, producer, reader. Plan: free. Lock: none.
CREATE OR REPLACE FUNCTION windlass.published_tasks() RETURNS text[]
LANGUAGE sql STABLE SECURITY DEFINER AS $$
    SELECT coalesce(array_agg(DISTINCT t.name COLLATE "C"), '{}')
      FROM windlass.worker_life l JOIN windlass.worker w USING (id), jsonb_object_keys(w.tasks) AS t (name)
     WHERE l.alive
$$;

-- Counts one heartbeat and returns the jobs of this worker that should be cancelled [C4] [O5]; NULL where the
-- worker is not alive: it may just have retired, which is no error.
-- Callers: the store. May call: worker. Plan: pinned, ordered. Lock: the life row, FOR NO KEY UPDATE if no
-- claim or flush has it, else FOR SHARE; the heartbeat row. With the life row to itself, and a snapshot
-- younger than that, no claim of the worker is under way. Only then may its floor rise: over claims that are
-- finished, never over one whose answer was lost; 500 a heartbeat, so that it is quick.
CREATE OR REPLACE FUNCTION windlass.heartbeat(p_worker bigint) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_floor bigint;
BEGIN
    PERFORM FROM windlass.worker_life w JOIN windlass.epoch_mark e ON e.epoch = w.epoch
        AND e.place = 'windlass.epoch_mark'::regclass::oid::bigint
      WHERE w.id = p_worker AND w.alive FOR NO KEY UPDATE OF w SKIP LOCKED;
    IF FOUND AND current_setting('transaction_isolation') = 'read committed' THEN
        SELECT coalesce(min(c.id) FILTER (WHERE NOT isempty(windlass.unfinished(c.id, c.seqs))),
                        max(c.id) + 1) INTO v_floor
          FROM (SELECT x.id, x.seqs FROM windlass.claim x
                 WHERE x.worker = p_worker AND x.n > 0 AND x.worker <> 0
                   AND x.id >= (SELECT b.floor FROM windlass.worker_heartbeat b WHERE b.id = p_worker)
                 ORDER BY x.id LIMIT 500) AS c;
    ELSIF NOT FOUND THEN
        PERFORM FROM windlass.worker_life w JOIN windlass.epoch_mark e ON e.epoch = w.epoch
            AND e.place = 'windlass.epoch_mark'::regclass::oid::bigint
          WHERE w.id = p_worker AND w.alive FOR SHARE OF w;
        IF NOT FOUND THEN
            PERFORM windlass.check_epoch();
            RETURN NULL;
        END IF;
    END IF;
    UPDATE windlass.worker_heartbeat
       SET heartbeat = heartbeat + 1, at = windlass.now(), floor = greatest(floor, v_floor)
     WHERE id = p_worker;
    IF NOT EXISTS (SELECT FROM windlass.cancel_request) THEN
        RETURN '{}';
    END IF;
    RETURN (SELECT coalesce(array_agg(q.job), '{}')
              FROM windlass.holdings(p_worker) h
              JOIN windlass.cancel_request q ON q.job = windlass.job_of(h.ready));
END $$;

-- Proves that a worker is alive in this epoch [S3] and keeps it so until the transaction ends [C5].
-- Callers: claim_take, claim_recheck, break_runs, finish, split, checkpoint, save_steps, wait_for_signals,
-- emit, spend_tokens. May call: worker. Plan: the caller's. Lock: the life row FOR SHARE, with p_long FOR KEY
-- SHARE: for a handler's own transaction, which must keep the worker alive without blocking its flushes (see
-- worker_alone; what ends a worker takes FOR UPDATE) [S2]. At a higher isolation level the lock fails if the
-- row has changed, so no stale snapshot passes.
CREATE OR REPLACE FUNCTION windlass.worker_fence(p_worker bigint, p_long boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_long THEN
        PERFORM FROM windlass.worker_life w
          JOIN windlass.epoch_mark e ON e.epoch = w.epoch
           AND e.place = 'windlass.epoch_mark'::regclass::oid::bigint
          WHERE w.id = p_worker AND w.alive FOR KEY SHARE OF w;
    ELSE
        PERFORM FROM windlass.worker_life w
          JOIN windlass.epoch_mark e ON e.epoch = w.epoch
           AND e.place = 'windlass.epoch_mark'::regclass::oid::bigint
          WHERE w.id = p_worker AND w.alive FOR SHARE OF w;
    END IF;
    IF NOT FOUND THEN
        PERFORM windlass.check_epoch();
        RAISE EXCEPTION 'worker % is not alive', p_worker USING ERRCODE = 'WL002',
            HINT = 'It was retired, or rescued after its heartbeats stopped; its jobs belong to others now.';
    END IF;
END $$;

-- Waits until no claim and no flush of a worker is under way, keeps others out until the transaction ends,
-- and says whether it lives.
-- Callers: finish, for attempts that did not simply succeed; split; the store's unfinished. May call: worker.
-- Plan: free. Lock: the life row FOR NO KEY UPDATE, which does not wait for checkpoints in handlers' own
-- transactions, however long these last [S2].
-- A flush or claim whose connection broke may still be running in the server. To decide what that worker
-- holds, read in a later statement: an earlier snapshot cannot see what was about to commit. It must be the
-- first lock on that row in its transaction: two that held it FOR SHARE would wait for each other.
CREATE OR REPLACE FUNCTION windlass.worker_alone(p_worker bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_alive boolean;
    v_epoch bigint;
BEGIN
    SELECT alive, epoch INTO v_alive, v_epoch FROM windlass.worker_life WHERE id = p_worker FOR NO KEY UPDATE;
    IF v_epoch IS DISTINCT FROM windlass.epoch_here() THEN
        PERFORM windlass.check_epoch();
    END IF;
    RETURN coalesce(v_alive, false);
END $$;

-- ==== What a worker holds ====

-- The jobs a worker holds: the unfinished seqs of its claims, with their ready rows.
-- Callers: heartbeat, hand_back, count_running, the store's unfinished. May call: worker. Plan: pinned. Lock:
-- none.
-- The worker's floor bounds the search: every claim below it is finished. Volatile, so that its snapshot is
-- taken after its locks: an older one may miss a claim that a rotation has just carried to another segment.
-- Each OFFSET 0 is a fence [rule 8]: joined in another order, `unfinished` runs once per ready row of the
-- lane (4,000 claims: 33 s instead of 0.2 s).
CREATE OR REPLACE FUNCTION windlass.holdings(p_worker bigint)
RETURNS TABLE (claim bigint, segment smallint, ready windlass.ready)
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT o.id, o.segment, r.ready
      FROM (SELECT c.id, c.segment, c.lane, unnest(windlass.unfinished(c.id, c.seqs)) AS span
              FROM windlass.claim c
             WHERE c.worker = p_worker AND c.n > 0 AND c.worker <> 0
               AND c.id >= (SELECT b.floor FROM windlass.worker_heartbeat b WHERE b.id = p_worker)
             OFFSET 0) AS o
     CROSS JOIN LATERAL (SELECT x AS ready FROM windlass.ready x
                          WHERE x.lane = o.lane AND x.seq >= lower(o.span) AND x.seq < upper(o.span)
                         OFFSET 0) AS r
     ORDER BY o.id, (r.ready).seq;
END $$;

-- What a worker holds, as spans of positions: holdings without the jobs, which may be large [S4]. Only claims
-- from p_since on.
-- Callers: the store, every few seconds for each worker. May call: worker. Plan: pinned. Lock: none.
-- Volatile and bounded by the worker's floor as holdings is, and for the same reasons. That floor lags behind
-- where claims are many, so a claim whose outcomes in its own segment cover it is passed over first: one
-- probe (14 us), not eight (65).
CREATE OR REPLACE FUNCTION windlass.unfinished_spans(p_worker bigint, p_since bigint)
RETURNS TABLE (claim bigint, lane int, first bigint, beyond bigint)
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT o.id, o.lane, lower(o.span), upper(o.span)
      FROM (SELECT c.id, c.lane, unnest(windlass.unfinished(c.id, c.seqs)) AS span
              FROM windlass.claim c
             WHERE c.worker = p_worker AND c.n > 0 AND c.worker <> 0
               AND c.id >= (SELECT greatest(b.floor, p_since) FROM windlass.worker_heartbeat b
                             WHERE b.id = p_worker)
               AND NOT isempty(c.seqs - coalesce((SELECT range_agg(x.seqs) FROM windlass.outcome x
                                                   WHERE x.segment = c.segment AND x.claim = c.id), '{}'))
                                                  OFFSET 0) AS o;
END $$;

-- ==== Taking back ====

-- Declares a worker dead if its heartbeat has not moved since the observer began to watch it, a whole lease
-- ago [C8].
-- Callers: the store's rescue, in a transaction of its own. May call: worker. Plan: free. Lock: the life row,
-- without waiting: a waiting rescue would block the worker's own heartbeats. True: dead (now or before);
-- false: it lives or is writing.
CREATE OR REPLACE FUNCTION windlass.declare_dead(p_worker bigint, p_heartbeat bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_alive boolean;
BEGIN
    SELECT alive INTO v_alive FROM windlass.worker_life WHERE id = p_worker FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF v_alive THEN
        UPDATE windlass.worker_life l SET alive = false
         WHERE l.id = p_worker AND EXISTS (SELECT FROM windlass.worker_heartbeat b
                                            WHERE b.id = l.id AND b.heartbeat = p_heartbeat);
        RETURN FOUND;
    END IF;
    RETURN true;
END $$;

-- One bounded step of taking back a dead worker's jobs; see hand_back.
-- Callers: the store's rescue, after declare_dead. May call: worker. Plan: free. Lock: those of hand_back.
CREATE OR REPLACE FUNCTION windlass.rescue_step(
    p_worker bigint, p_delays float8[], p_limit int,
    OUT offered bigint, OUT deferred bigint, OUT dead bigint, OUT cancelled bigint, OUT left_over boolean,
    OUT freed text[])
LANGUAGE sql SECURITY DEFINER AS $$
    SELECT * FROM windlass.hand_back(p_worker, 'lost', p_delays, p_limit)
$$;

-- A worker retires: what it still holds is offered again, uncharged.
-- Callers: the store. May call: worker. Plan: free. Lock: the life row FOR UPDATE, then those of hand_back.
CREATE OR REPLACE FUNCTION windlass.retire(p_worker bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    g record;
BEGIN
    -- An update of `alive` alone would not wait for checkpoints, which hold the row FOR KEY SHARE.
    PERFORM FROM windlass.worker_life WHERE id = p_worker AND alive FOR UPDATE;
    UPDATE windlass.worker_life SET alive = false WHERE id = p_worker AND alive;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    SELECT * INTO g FROM windlass.hand_back(p_worker, 'released', '{}', 2147483647);
    RETURN g.offered + g.cancelled;
END $$;

-- Takes back what a worker that is not alive still holds, up to p_limit claims of it.
-- Callers: rescue_step, retire, adopt. May call: worker. Plan: the caller's. Lock: the life row FOR UPDATE,
-- so that two of them take turns; those of offer.
-- kind 'lost' counts a death: p_delays[n] is the wait after the n-th, and beyond its end the job is poison
-- [C8]. Of a run of a key only the first that has not ended can have begun, so the others are released. kind
-- 'released' counts nothing. A job whose cancel was asked for is cancelled. `left_over`: call
-- again. `freed`: as in finish; a worker that retires leaves that to the coordinator.
CREATE OR REPLACE FUNCTION windlass.hand_back(
    p_worker bigint, p_kind text, p_delays float8[], p_limit int,
    OUT offered bigint, OUT deferred bigint, OUT dead bigint, OUT cancelled bigint, OUT left_over boolean,
    OUT freed text[])
LANGUAGE plpgsql AS $$
DECLARE
    d       record;
    v_ready windlass.ready;
    v_delay float8;
BEGIN
    PERFORM windlass.require_read_committed();
    PERFORM windlass.check_epoch();
    offered := 0;
    deferred := 0;
    dead := 0;
    cancelled := 0;
    left_over := false;
    freed := '{}';
    PERFORM FROM windlass.worker_life WHERE id = p_worker AND NOT alive FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    FOR d IN
        WITH held AS MATERIALIZED (
            SELECT h.*, CASE WHEN p.run IS NULL OR row_number() OVER run = 1 THEN p_kind
                             ELSE 'released' END AS kind
              FROM (SELECT x.*, windlass.job_of(x.ready) AS id FROM windlass.holdings(p_worker) AS x) AS h
              LEFT JOIN LATERAL (SELECT x.gate, x.run FROM windlass.pass x
                                  WHERE x.job = h.id AND x.run IS NOT NULL
                                  ORDER BY x.gate LIMIT 1) AS p ON true
            WINDOW run AS (PARTITION BY p.gate, p.run ORDER BY h.claim, (h.ready).seq)),
        step AS (SELECT DISTINCT claim FROM held ORDER BY claim LIMIT p_limit),
        judged AS MATERIALIZED (
            SELECT h.claim, h.segment, h.ready, h.id, (h.ready).deaths + (h.kind = 'lost')::int AS deaths,
                   (h.ready).lane AS lane, (h.ready).seq AS seq,
                   CASE WHEN EXISTS (SELECT FROM windlass.cancel_request q WHERE q.job = h.id)
                        THEN 'cancelled'
                        WHEN h.kind = 'lost' AND (h.ready).deaths >= cardinality(p_delays) THEN 'dead'
                        ELSE h.kind END AS kind
              FROM held h WHERE h.claim IN (SELECT claim FROM step)),
        added AS (
            INSERT INTO windlass.outcome (segment, claim, lane, flush, kind, seqs, n, at)
            SELECT segment, claim, lane, 0, kind, range_agg(int8range(seq, seq + 1)), count(*), windlass.now()
              FROM judged GROUP BY segment, claim, lane, kind)
        SELECT j.*, (SELECT count(DISTINCT claim) FROM held) > p_limit AS more,
               (SELECT array_agg(x.id) FROM judged x) AS step
          FROM judged j ORDER BY j.kind IN ('cancelled', 'dead') DESC, j.claim, j.seq
    LOOP
        left_over := d.more;
        v_delay := CASE WHEN d.kind = 'lost' THEN p_delays[d.deaths] ELSE 0 END;
        IF d.kind NOT IN ('cancelled', 'dead')
           AND EXISTS (SELECT FROM windlass.pass p WHERE p.job = d.id AND p.run IS NOT NULL)
           AND windlass.rejoin_list(d.id, d.ready, (d.ready).attempt, d.deaths, v_delay, d.step) THEN
            offered := offered + 1;
            UPDATE windlass.checkpoint k SET claim = NULL, worker = NULL
             WHERE k.job = d.id AND k.claim = d.claim;
            CONTINUE;
        END IF;
        IF d.kind IN ('cancelled', 'dead') OR v_delay > 0 THEN
            freed := freed || windlass.drop_passes(ARRAY[d.id],
                                                   CASE WHEN d.kind IN ('cancelled', 'dead') THEN 'all'
                                                        ELSE 'attempt' END,
                                                   p_kind <> 'lost');
        END IF;
        IF d.kind = 'cancelled' THEN
            cancelled := cancelled + 1;
            PERFORM windlass.settle(ARRAY[d.id], ARRAY[d.lane], ARRAY[d.claim], d.kind);
        ELSIF d.kind = 'dead' THEN
            dead := dead + 1;
            PERFORM windlass.bury_job(d.ready, d.deaths, 'poison');
            PERFORM windlass.settle(ARRAY[d.id], ARRAY[d.lane], ARRAY[d.claim], d.kind);
        ELSE
            offered := offered + (v_delay <= 0)::int;
            deferred := deferred + (v_delay > 0)::int;
            UPDATE windlass.checkpoint k SET claim = NULL, worker = NULL
             WHERE k.job = d.id AND k.claim = d.claim;
            v_ready := d.ready;
            v_ready.options := windlass.unknown_since(v_ready.options, false);
            IF d.kind = 'lost' THEN
                v_ready.options := windlass.without_deadline(v_ready.options);
            END IF;
            PERFORM windlass.reoffer(v_ready, v_delay, v_ready.attempt, d.deaths, true);
        END IF;
    END LOOP;
    IF NOT left_over THEN
        UPDATE windlass.worker_life SET settled = true WHERE id = p_worker;
    END IF;
END $$;

-- ==== Statements that the store sends ====

-- :unfinished_jobs
-- The jobs a worker holds, by claim.
-- Callers: Claims.unfinished, after worker_alone. Lock: none.
SELECT h.claim, l.id AS lane, l.queue, l.priority, (h.ready).seq AS seq, windlass.job_of(h.ready) AS id,
       (h.ready).task AS task, (h.ready).payload AS payload, (h.ready).options AS options,
       (h.ready).attempt AS attempt, (h.ready).deaths AS deaths,
       date_part('epoch', windlass.enqueued_of(h.ready)) AS enqueued,
       date_part('epoch', (h.ready).offered_at) AS offered
  FROM windlass.holdings($1) AS h JOIN windlass.lane l ON l.id = (h.ready).lane
 ORDER BY h.claim, seq

-- :workers
-- Workers that are alive or have not been taken back yet.
-- Callers: the store's workers. Lock: none.
SELECT w.id, w.label, w.host, w.pid, w.queues, w.started_at, w.lease, w.abilities,
       l.alive, b.heartbeat, b.at AS heartbeat_at, t.vitals, t.vitals_at
  FROM windlass.worker w JOIN windlass.worker_life l USING (id) JOIN windlass.worker_heartbeat b USING (id)
  LEFT JOIN windlass.reporter t ON t.source = w.id
 WHERE l.alive OR NOT l.settled
 ORDER BY w.started_at, w.id
