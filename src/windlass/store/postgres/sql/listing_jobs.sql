-- One job, wherever it is; the view of all jobs. How many there are is in listing_depths.sql.

-- ==== In the logs ====

-- Where a job is in the logs: the one ready row that is its present place, with claim and outcome.
-- Callers: change, cancel_job, delete, retry, end_waiting, take_unique_key, is_unfinished, lock_lanes_of,
-- try_lock_waiting, note_part_ends, replace_step, hold_unserved, count_started, standing_of, end_expired,
-- request_cancels, the store's look-up. May call: worker, reader. Plan: pinned. Lock: none. Rows of earlier
-- attempts ended in an outcome that sent the job on; they are not its place. In PL/pgSQL, which keeps its
-- plan: before PostgreSQL 18 a function in SQL that cannot be inlined is planned by each statement that calls
-- it [S1].
CREATE OR REPLACE FUNCTION windlass.locate(p_job bigint)
RETURNS TABLE (ready windlass.ready, claim bigint, worker bigint, claimed_at timestamptz, kind text,
               finished_at timestamptz)
LANGUAGE plpgsql STABLE ROWS 1 AS $$
BEGIN
    RETURN QUERY
    SELECT r.ready, c.id, c.worker, c.claimed_at, o.kind, o.at
      FROM (SELECT x AS ready FROM windlass.ready x
             WHERE x.lane = (p_job >> 44)::int AND x.seq = p_job & :ids.MAX_SEQ AND x.id IS NULL
             UNION ALL
            SELECT x FROM windlass.ready x WHERE x.id = p_job) AS r
      LEFT JOIN LATERAL windlass.place_claim((r.ready).lane, (r.ready).seq) AS c ON true
      LEFT JOIN LATERAL windlass.place_outcome(c.id, (r.ready).seq) AS o ON true
     WHERE o.kind IS NULL OR o.kind IN ('succeeded', 'cancelled', 'expired')
     ORDER BY o.kind IS NULL DESC, (r.ready).seq DESC LIMIT 1;
END $$;

-- The claim that covers a position, or nothing where the job is still waiting.
-- Callers: locate, rotation_move, the view job. May call: worker, reader. Plan: pinned, ordered. Lock: none.
-- hi only ever rises, so the first claim with hi >= seq is the one that passed it; if it passed it as a hole,
-- a late claim may have taken it since, and those are few and indexed apart.
CREATE OR REPLACE FUNCTION windlass.place_claim(p_lane int, p_seq bigint)
RETURNS TABLE (id bigint, worker bigint, claimed_at timestamptz, segment smallint)
LANGUAGE plpgsql STABLE ROWS 1 AS $$
BEGIN
    RETURN QUERY
    SELECT c.id, c.worker, c.claimed_at, c.segment
      FROM (SELECT * FROM windlass.claim x WHERE x.lane = p_lane AND x.hi >= p_seq ORDER BY x.hi, x.id
             LIMIT 1) AS c
     WHERE c.seqs @> p_seq;
    IF NOT FOUND THEN
        RETURN QUERY
        SELECT c.id, c.worker, c.claimed_at, c.segment
          FROM windlass.claim c WHERE c.lane = p_lane AND c.late AND c.seqs @> p_seq ORDER BY c.id DESC
         LIMIT 1;
    END IF;
END $$;

-- How the claimed attempt at a position ended, or nothing while it runs.
-- Callers: locate, the view job. May call: worker, reader. Plan: pinned. Lock: none.
CREATE OR REPLACE FUNCTION windlass.place_outcome(p_claim bigint, p_seq bigint)
RETURNS TABLE (kind text, at timestamptz)
LANGUAGE plpgsql STABLE STRICT ROWS 1 AS $$
BEGIN
    RETURN QUERY SELECT o.kind, o.at FROM windlass.outcome o WHERE o.claim = p_claim AND o.seqs @> p_seq
                  LIMIT 1;
END $$;

-- The state of a job in the logs: how it ended, or whether a claim covers it. A parent to be splits while it
-- runs.
-- Callers: standing_of, list_judged, end_aside, end_in_lane, the view job, the store's look-up. May call:
-- worker, reader. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.shown_as(p_kind text, p_claim bigint, p_options json) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_kind = 'expired' THEN 'cancelled' WHEN p_kind IS NOT NULL THEN p_kind
                WHEN p_claim IS NULL THEN 'ready'
                WHEN p_options ->> 'chunked' = 'true' THEN 'splitting' ELSE 'running' END
$$;

-- ==== Anywhere ====

-- Where a job is: its state as users know it, and its attempt. No row: there is no such job. The one function
-- that knows.
-- Callers: check_after, follow, look_at_fresh, part_runs, read_stream, expire_steps, expire_signals,
-- expire_streams, expire_groups, send_signal, add_to_group, the view job_part, the store's results and
-- group_counts. May call: worker, reader. Plan: pinned. Lock: none; who acts on it has locked claim in ACCESS
-- SHARE mode before, as in finish. On its way from one place to the next a job is in exactly one of them in
-- any snapshot, hence one statement.
CREATE OR REPLACE FUNCTION windlass.standing_of(p_job bigint) RETURNS TABLE (state text, attempt smallint)
LANGUAGE plpgsql STABLE ROWS 1 AS $$
BEGIN
    RETURN QUERY
    SELECT CASE WHEN d.retrying THEN 'retrying' ELSE 'scheduled' END,
                     d.attempt FROM windlass.deferred d WHERE d.id = p_job
     UNION ALL
    SELECT 'ready', h.attempt FROM windlass.held h WHERE h.id = p_job
     UNION ALL
    SELECT p.state, p.attempt FROM windlass.parent p WHERE p.id = p_job
     UNION ALL
    SELECT windlass.shown_as(l.kind, l.claim, (l.ready).options), (l.ready).attempt
      FROM windlass.locate(p_job) AS l
     UNION ALL
    SELECT 'dead', d.attempt FROM windlass.dead d WHERE d.id = p_job
     LIMIT 1;
END $$;

-- Why a job that was put off waits, if there is more to say than its time [O4] [P12] [W2].
-- Callers: list_found, the view job, the store's look-up. May call: worker, reader. Plan: none (the view job
-- calls it for each row). Lock: none.
CREATE OR REPLACE FUNCTION windlass.deferred_reason(d windlass.deferred) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN d.options ->> 'unknown_since' IS NOT NULL THEN 'no worker knows this task'
                WHEN d.suspended IS NOT NULL
                THEN (SELECT 'waits for signal '
                             || string_agg(w.signal || windlass.waits_since(w.at, w.until), ' and '
                                           ORDER BY w.no)
                        FROM windlass.wait w WHERE w.job = d.id AND w.claim = d.suspended)
                WHEN d.run_at = 'infinity'
                THEN (SELECT CASE WHEN bool_or(e.on_job = d.id) THEN 'its group is open for more jobs'
                                  ELSE 'waits for job ' || min(e.on_job)
                                       || CASE count(*) WHEN 1 THEN '' WHEN 2 THEN ' and 1 other'
                                               ELSE ' and ' || (count(*) - 1) || ' others' END END
                        FROM windlass.after_edge e WHERE e.job = d.id) END
$$;

-- Why a job waits in this waiting list; NULL is the ring of fair keys [M4].
-- Callers: list_found, the view job, the store's look-up. May call: worker, reader. Plan: the caller's.
-- Lock: none.
-- reason in windlass.core.flow.gates says the same.
CREATE OR REPLACE FUNCTION windlass.gate_reason(p_gate text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE g.kind
           WHEN 'order' THEN 'waits for the jobs before it of ordering key '
                             || windlass.in_quotes(g.key) || ' in queue ' || g.name
           WHEN 'key' THEN 'waits for a slot of concurrency key ' || windlass.in_quotes(g.rest)
           WHEN 'task' THEN 'waits for a slot of task ' || g.rest
           WHEN 'budget' THEN 'waits for tokens of budget ' || g.name
                              || CASE WHEN g.key <> '' THEN ', key ' || windlass.in_quotes(g.key) ELSE '' END
           WHEN 'over' THEN 'needs more tokens than budget ' || g.name || ' can hold'
                            || CASE WHEN g.key <> '' THEN ', key ' || windlass.in_quotes(g.key) ELSE '' END
                            || ': raise its burst'
           WHEN 'shut' THEN 'waits for queue ' || split_part(g.rest, ' ', 1)
                            || ', which is paused or served by no worker'
                            || CASE WHEN g.rest LIKE '% %'
                                    THEN CASE WHEN g.rest LIKE '%,%' THEN ' with the abilities '
                                              ELSE ' with the ability ' END
                                         || replace(split_part(g.rest, ' ', 2), ',', ', ')
                                    ELSE '' END
           ELSE 'waits for the turn of its fair key' END
      FROM (SELECT split_part(p_gate, ':', 1) AS kind, r.rest, split_part(r.rest, '/', 1) AS name,
                   substr(r.rest, strpos(r.rest || '/', '/') + 1) AS key
              FROM (SELECT substr(p_gate, strpos(p_gate, ':') + 1) AS rest) AS r) AS g
$$;

-- A text in quotes, as Python shows it.
-- Callers: gate_reason. May call: worker, reader. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.in_quotes(p_text text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT q.mark || replace(replace(replace(replace(replace(p_text, E'\\', E'\\\\'), q.mark,
                                                     E'\\' || q.mark), E'\n', E'\\n'),
                                     E'\r', E'\\r'), E'\t', E'\\t') || q.mark
      FROM (SELECT CASE WHEN p_text LIKE '%''%' AND p_text NOT LIKE '%"%' THEN '"' ELSE '''' END AS mark) AS q
$$;

-- The last 32 failures of a job as JSON, oldest first [O4].
-- Callers: bury_job, bury_deferred, list_causes, the store's look-up. May call: worker, reader.
-- Plan: indexed. Lock: none.
-- A row of attempt 0 is no failure: it says that those before it are forgotten [O1].
CREATE OR REPLACE FUNCTION windlass.failures_of(p_job bigint) RETURNS json
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT coalesce(json_agg(json_build_object('type', f.type, 'message', f.message,
                                                       'traceback', f.traceback, 'attempt', f.attempt,
                                                       'at', date_part('epoch', f.at))
                                     ORDER BY f.at), '[]')
              FROM (SELECT * FROM windlass.failure
                     WHERE job = p_job
                       AND at > coalesce((SELECT max(m.at) FROM windlass.failure m
                                          WHERE m.job = p_job AND m.attempt = 0), '-infinity')
                     ORDER BY at DESC LIMIT 32) AS f);
END $$;

-- ==== The view ====

-- Every job in every state, one row each. Lock: none.
-- A look-up by id goes through windlass.locate, which is faster. parent, part, parts: which part of which
-- parent it is, from 0, and of how many; -1 is the finalizer [P4]. See job_part and job_parent for more about
-- these.
CREATE OR REPLACE VIEW windlass.job AS
SELECT windlass.job_of(r) AS id, r.task, l.queue, l.priority,
       windlass.shown_as(o.kind, c.id, r.options) AS state,
       r.attempt, r.deaths, r.payload, r.options, windlass.enqueued_of(r) AS enqueued_at,
       NULL::timestamptz AS run_at, c.claimed_at, o.at AS finished_at, nullif(c.worker, 0) AS worker,
       c.id AS claim, windlass.end_reason(o.kind, r.options) AS reason,
       (r.options #>> '{part,parent}')::bigint AS parent, (r.options #>> '{part,index}')::int AS part,
       (r.options #>> '{part,total}')::int AS parts
  FROM windlass.ready r
  JOIN windlass.lane l ON l.id = r.lane
  JOIN windlass.queue q ON q.name = l.queue
  LEFT JOIN LATERAL windlass.place_claim(r.lane, r.seq) AS c ON true
  LEFT JOIN LATERAL windlass.place_outcome(c.id, r.seq) AS o ON true
 WHERE o.kind IS NULL
    OR o.kind IN ('succeeded', 'cancelled', 'expired')
       AND (q.retention IS NULL OR o.at > windlass.now() - make_interval(secs => q.retention))
UNION ALL
SELECT d.id, d.task, d.queue, d.priority, CASE WHEN d.retrying THEN 'retrying' ELSE 'scheduled' END,
                                                    d.attempt, d.deaths,
       d.payload, d.options, d.enqueued_at, CASE WHEN d.run_at = 'infinity' THEN d.not_before
                                                 ELSE d.run_at END, NULL, NULL,
       NULL, NULL, windlass.deferred_reason(d), (d.options #>> '{part,parent}')::bigint,
       (d.options #>> '{part,index}')::int,
       (d.options #>> '{part,total}')::int
  FROM windlass.deferred d
UNION ALL
SELECT h.id, h.task, h.queue, h.priority, 'ready', h.attempt, h.deaths, h.payload, h.options, h.enqueued_at,
       NULL, NULL, NULL, NULL, NULL, windlass.gate_reason(h.gate) COLLATE "default",
       (h.options #>> '{part,parent}')::bigint, (h.options #>> '{part,index}')::int,
       (h.options #>> '{part,total}')::int
  FROM windlass.held h
UNION ALL
SELECT d.id, d.task, d.queue, d.priority, 'dead', d.attempt, d.deaths, d.payload, d.options, d.enqueued_at,
       NULL, NULL, d.died_at, NULL, NULL, d.reason, (d.options #>> '{part,parent}')::bigint,
       (d.options #>> '{part,index}')::int,
       (d.options #>> '{part,total}')::int
  FROM windlass.dead d
UNION ALL
SELECT p.id, p.task, p.queue, p.priority, p.state, p.attempt, p.deaths, p.payload, p.options, p.enqueued_at,
       NULL, NULL, p.finished_at, NULL, NULL, p.reason, (p.options #>> '{part,parent}')::bigint,
       (p.options #>> '{part,index}')::int,
       (p.options #>> '{part,total}')::int
  FROM windlass.parent p
  JOIN windlass.queue q ON q.name = p.queue
 WHERE p.state IN ('waiting', 'dead') OR q.retention IS NULL
    OR p.finished_at > windlass.now() - make_interval(secs => q.retention);

-- ==== Statements that the store sends ====

-- :find_job
-- One job by its id, wherever it is.
-- Callers: the store's job. Lock: none.
-- On its way from one place to the next a job is in exactly one of them in any snapshot, hence one statement.
SELECT p.id, p.task, l.queue, l.priority, p.state, p.attempt, p.deaths, p.payload, p.options, p.enqueued_at,
       NULL::timestamptz AS run_at, p.claimed_at, p.finished_at, p.worker, p.claim, p.reason
  FROM (SELECT windlass.job_of(x.ready) AS id, (x.ready).lane AS lane, (x.ready).task AS task,
               windlass.shown_as(x.kind, x.claim, (x.ready).options) AS state,
               (x.ready).attempt AS attempt, (x.ready).deaths AS deaths, (x.ready).payload AS payload,
               (x.ready).options AS options, windlass.enqueued_of(x.ready) AS enqueued_at,
               x.claimed_at, x.finished_at, nullif(x.worker, 0) AS worker, x.claim,
               windlass.end_reason(x.kind, (x.ready).options) AS reason
          FROM windlass.locate($1) AS x) AS p
  JOIN windlass.lane l ON l.id = p.lane
  JOIN windlass.queue q ON q.name = l.queue
 WHERE q.retention IS NULL OR p.finished_at IS NULL
    OR p.finished_at > windlass.now() - make_interval(secs => q.retention)
UNION ALL
SELECT id, task, queue, priority, CASE WHEN retrying THEN 'retrying' ELSE 'scheduled' END, attempt, deaths,
       payload, options, enqueued_at, CASE WHEN run_at = 'infinity' THEN not_before ELSE run_at END,
       NULL, NULL, NULL, NULL, windlass.deferred_reason(deferred)
  FROM windlass.deferred WHERE id = $1
UNION ALL
SELECT id, task, queue, priority, 'ready', attempt, deaths, payload, options, enqueued_at, NULL, NULL, NULL,
       NULL, NULL, windlass.gate_reason(gate)
  FROM windlass.held WHERE id = $1
UNION ALL
SELECT id, task, queue, priority, 'dead', attempt, deaths, payload, options, enqueued_at, NULL, NULL, died_at,
       NULL, NULL, reason
  FROM windlass.dead WHERE id = $1
UNION ALL
SELECT p.id, p.task, p.queue, p.priority, p.state, p.attempt, p.deaths, p.payload, p.options, p.enqueued_at,
       NULL, NULL, p.finished_at, NULL, NULL, p.reason
  FROM windlass.parent p JOIN windlass.queue q ON q.name = p.queue
 WHERE p.id = $1 AND (p.state IN ('waiting', 'dead') OR q.retention IS NULL
                      OR p.finished_at > windlass.now() - make_interval(secs => q.retention))

-- :job_extras
-- What hangs on jobs: result, failures, cancel request, checkpoint, progress. $1 ids, $2 their states.
-- Callers: the store's listings. Lock: none.
-- Each is looked up by its index, job by job (LIMIT 1 and OFFSET 0 are fences [rule 8]); most jobs have none
-- of them.
SELECT coalesce(r.result, p.result) AS result,
       CASE WHEN d.errors IS NOT NULL THEN d.errors
            WHEN EXISTS (SELECT FROM windlass.failure f WHERE f.job = j.id OFFSET 0)
            THEN windlass.failures_of(j.id) END AS errors,
       q.job IS NOT NULL OR coalesce(p.cancelling, false) AS cancel_requested, k.data,
       coalesce(k.done, e.done, d.done) AS done, coalesce(k.total, e.total, d.total) AS total,
       coalesce(k.at, e.at, d.saved_at) AS at
  FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS j (id, state, i)
  LEFT JOIN LATERAL (SELECT x.result FROM windlass.result x
                      WHERE x.job = j.id AND j.state = 'succeeded' AND x.result IS NOT NULL
                      ORDER BY x.at DESC LIMIT 1) AS r ON true
  LEFT JOIN LATERAL (SELECT x.done, x.total, x.at FROM windlass.result x
                      WHERE x.job = j.id AND j.state IN ('succeeded', 'cancelled') AND x.result IS NULL
                      LIMIT 1) AS e ON true
  LEFT JOIN LATERAL (SELECT x.errors, x.done, x.total, x.saved_at FROM windlass.dead x
                      WHERE x.id = j.id AND j.state = 'dead' LIMIT 1) AS d ON true
  LEFT JOIN LATERAL (SELECT x.result, x.cancelling FROM windlass.parent x
                      WHERE x.id = j.id AND j.state NOT IN ('running', 'splitting') LIMIT 1) AS p ON true
  LEFT JOIN LATERAL (SELECT x.job FROM windlass.cancel_request x
                      WHERE x.job = j.id AND j.state IN ('running', 'splitting') LIMIT 1) AS q ON true
  LEFT JOIN LATERAL (SELECT x.data, x.done, x.total, x.at FROM windlass.checkpoint x
                      WHERE x.job = j.id AND j.state NOT IN (:states.FINISHED)
                      LIMIT 1) AS k ON true
 ORDER BY j.i

-- :results
-- How jobs stand and what they returned, for those that are there; one statement for all of them [W4].
-- Callers: the store's results. Lock: none. Each is looked up by its index, as above.
SELECT j.id AS job, coalesce(p.task, (l.ready).task, '') AS task, s.state,
       coalesce(p.result, r.result) AS result
  FROM unnest($1::bigint[]) AS j (id)
 CROSS JOIN LATERAL (SELECT x.state FROM windlass.standing_of(j.id) AS x LIMIT 1) AS s
  LEFT JOIN LATERAL (SELECT x.task, x.result FROM windlass.parent x WHERE x.id = j.id LIMIT 1) AS p ON true
  LEFT JOIN LATERAL (SELECT x.ready FROM windlass.locate(j.id) AS x
                      WHERE s.state = 'succeeded' OFFSET 0) AS l ON true
  LEFT JOIN LATERAL (SELECT x.result FROM windlass.result x
                      WHERE x.job = j.id AND s.state = 'succeeded' AND x.result IS NOT NULL
                      ORDER BY x.at DESC LIMIT 1) AS r ON true
