-- How attempts end: what a flush records, what becomes of each job, and what is cleared when one has ended
-- for good; and checkpoints, which an attempt leaves behind.

-- ==== Finishing ====

-- Records how claimed attempts ended: one row per claim for those that succeeded, the rest through
-- finish_others.
-- Callers: the store, finish_and_claim; also inside a handler's own transaction. May call: worker. Plan:
-- generic, pinned. Lock: the worker's life row FOR SHARE, or FOR NO KEY UPDATE where an attempt did not
-- simply succeed (see worker_alone); ACCESS SHARE on claim first, so that the snapshot that finds a claim's
-- segment is younger than any rotation that moved it. The outcome row is inserted by the statement that finds
-- that segment [rule 7]. Unique (claim, flush, kind): sending a flush again adds nothing and counts as
-- repeated. So does one whose claim is gone, if its number was noted when that segment was reclaimed. A job
-- that ended in another flush is refused. `freed`: gates with room and with waiting jobs, for the caller to
-- pass to admit_gates. p_admit: let up to so many of them through here, where that needs no waiting; not in a
-- handler's own transaction, which may last. p_queues, p_rooms, p_tokens, p_runs: see hand_over; only
-- finish_and_claim may ask for that.
CREATE OR REPLACE FUNCTION windlass.finish(
    p_worker bigint, p_flush bigint,
    p_lanes int[], p_claims bigint[], p_seqs text[], p_ns int[],
    p_jobs bigint[], p_job_claims bigint[], p_job_lanes int[], p_job_seqs bigint[], p_results text[],
    p_others json, p_forgets boolean[] DEFAULT NULL, p_admit int DEFAULT NULL,
    p_queues text[] DEFAULT NULL, p_rooms int[] DEFAULT NULL, p_tokens text[] DEFAULT NULL,
    p_runs int[] DEFAULT NULL, OUT applied bigint, OUT repeated bigint, OUT refused_claims bigint[],
    OUT refused_seqs text[], OUT refused_jobs bigint[], OUT freed text[], OUT handed windlass.handed[])
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    o       record;
    v_added bigint[];
    v_added_seqs text[];
    v_asked bigint;
    v_wrong bigint;
    v_from  bigint[];  -- the span of ids of each claim's jobs
    v_to    bigint[];
BEGIN
    -- worker_alone takes the stronger lock, so it comes first; where it says no, worker_fence says why.
    IF p_others IS NULL OR NOT windlass.worker_alone(p_worker) THEN
        PERFORM windlass.worker_fence(p_worker);
    END IF;
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    applied := 0;
    repeated := 0;
    freed := '{}';
    IF p_claims IS NOT NULL THEN
        WITH asked AS (
            SELECT u.lane, u.claim, u.seqs::int8multirange AS seqs, u.n
              FROM unnest(p_lanes, p_claims, p_seqs, p_ns) AS u (lane, claim, seqs, n)),
        judged AS MATERIALIZED (
            SELECT a.*, c.segment, s.wrong, CASE WHEN s.wrong THEN '{}' ELSE u.left_over END AS left_over,
                   CASE WHEN s.wrong THEN a.seqs WHEN u.left_over <> a.seqs AND c.segment IS NOT NULL
                        THEN a.seqs - u.left_over - windlass.flushed_in(a.claim, p_flush) END AS refused
              FROM asked a
              LEFT JOIN LATERAL (SELECT * FROM windlass.claim x WHERE x.lane = a.lane AND x.id = a.claim
                                  LIMIT 1) AS c
                ON true
             CROSS JOIN LATERAL (
                SELECT windlass.is_foreign_claim(c.worker, c.seqs, p_worker, a.seqs, p_flush) AS wrong
                OFFSET 0) AS s  -- once for each claim, not wherever it is named
             CROSS JOIN LATERAL (SELECT windlass.unfinished(a.claim, a.seqs) AS left_over OFFSET 0) AS u),
        added AS (
            INSERT INTO windlass.outcome (segment, claim, lane, flush, kind, seqs, n, at)
            SELECT segment, claim, lane, p_flush, 'succeeded', left_over,
                   CASE WHEN left_over = seqs THEN n ELSE windlass.count_seqs(left_over) END, windlass.now()
              FROM judged WHERE segment IS NOT NULL AND NOT isempty(left_over)
            ON CONFLICT DO NOTHING
            RETURNING claim, n, seqs)
        SELECT (SELECT coalesce(sum(n), 0) FROM added), (SELECT array_agg(claim) FROM added),
               (SELECT array_agg(seqs::text) FROM added),
               sum(j.n),
               coalesce(sum(windlass.count_seqs(j.refused)) FILTER (WHERE j.refused IS NOT NULL), 0),
               array_agg(j.claim) FILTER (WHERE NOT isempty(j.refused)),
               array_agg(j.refused::text) FILTER (WHERE NOT isempty(j.refused)),
               array_agg(j.lane::bigint << 44 | lower(j.left_over)) FILTER (WHERE NOT isempty(j.left_over)),
               array_agg(j.lane::bigint << 44 | upper(j.left_over)) FILTER (WHERE NOT isempty(j.left_over))
          INTO applied, v_added, v_added_seqs, v_asked, v_wrong, refused_claims, refused_seqs, v_from, v_to
          FROM judged j;
        repeated := v_asked - applied - v_wrong;
        -- Jobs that went straight to their lane, and those claimed before their task got a limit, hold a pass
        -- that the worker does not know of. Only passes near these jobs are looked at: see below.
        IF EXISTS (SELECT FROM unnest(v_from, v_to) AS u (low, high)
                    WHERE EXISTS (SELECT FROM windlass.pass p
                                   WHERE p.job >= u.low AND p.job < u.high OFFSET 0)) THEN
            freed := windlass.drop_passes(
                ARRAY(SELECT p.job
                        FROM unnest(p_claims, p_lanes) AS c (claim, lane)
                        JOIN unnest(v_added, v_added_seqs) AS a (claim, seqs) ON a.claim = c.claim
                       CROSS JOIN LATERAL unnest(a.seqs::int8multirange) AS s (span)
                        JOIN windlass.pass p ON p.job >= (c.lane::bigint << 44 | lower(s.span))
                                            AND p.job < (c.lane::bigint << 44 | upper(s.span))),
                'all', NULL, p_admit IS NOT NULL);
        END IF;
        -- Who comes after them: mostly nobody does [P12]. Of the edges only those near these jobs are looked
        -- at, since under an open snapshot the table may be full of dead ones. An old snapshot cannot tell:
        -- there each job counts. Those in p_jobs are for settle.
        IF EXISTS (SELECT FROM unnest(v_from, v_to) AS u (low, high)
                    WHERE EXISTS (SELECT FROM windlass.after_edge e
                                   WHERE e.on_job >= u.low AND e.on_job < u.high OFFSET 0))
           OR current_setting('transaction_isolation') <> 'read committed' THEN
            PERFORM windlass.note_ends(array_agg(DISTINCT x.on_job), 'succeeded')
               FROM unnest(p_claims, p_lanes) AS c (claim, lane)
               JOIN unnest(v_added, v_added_seqs) AS a (claim, seqs) ON a.claim = c.claim
              CROSS JOIN LATERAL unnest(a.seqs::int8multirange) AS s (span)
              CROSS JOIN LATERAL (
                SELECT y.on_job FROM windlass.after_edge y
                 WHERE y.on_job >= (c.lane::bigint << 44 | lower(s.span))
                   AND y.on_job < (c.lane::bigint << 44 | upper(s.span))
                 UNION ALL
                SELECT c.lane::bigint << 44 | i
                  FROM generate_series(lower(s.span), upper(s.span) - 1) AS i
                 WHERE current_setting('transaction_isolation') <> 'read committed') AS x
             HAVING count(*) > 0;
        END IF;
        IF p_jobs IS NOT NULL THEN
            IF num_nonnulls(VARIADIC p_results) > 0 THEN
                INSERT INTO windlass.result (segment, job, at, result)
                SELECT windlass.pin_segment(), u.job, windlass.now(), u.result::json
                  FROM unnest(p_jobs, p_job_claims, p_job_seqs, p_results) AS u (job, claim, seq, result)
                  JOIN unnest(v_added, v_added_seqs) AS a (claim, seqs)
                    ON a.claim = u.claim AND a.seqs::int8multirange @> u.seq
                 WHERE u.result IS NOT NULL;
            END IF;
            IF p_forgets IS NOT NULL THEN
                PERFORM windlass.note_failure(u.job, 0, '', '', '')
                   FROM unnest(p_jobs, p_job_claims, p_job_seqs, p_forgets) AS u (job, claim, seq, forget)
                   JOIN unnest(v_added, v_added_seqs) AS a (claim, seqs)
                     ON a.claim = u.claim AND a.seqs::int8multirange @> u.seq
                  WHERE u.forget;
            END IF;
            -- The spans are read once, not for each job.
            WITH a AS MATERIALIZED (SELECT x.claim, x.seqs::int8multirange AS seqs
                                      FROM unnest(v_added, v_added_seqs) AS x (claim, seqs))
            SELECT array_agg(u.job) AS jobs, array_agg(u.lane) AS lanes, array_agg(u.claim) AS claims INTO o
              FROM unnest(p_jobs, p_job_claims, p_job_lanes, p_job_seqs) AS u (job, claim, lane, seq)
              JOIN a ON a.claim = u.claim AND a.seqs @> u.seq;
            IF o.jobs IS NOT NULL THEN
                freed := freed || windlass.drop_passes(o.jobs, 'all', NULL, p_admit IS NOT NULL);
                PERFORM windlass.settle(o.jobs, o.lanes, o.claims, 'succeeded', p_dropped => true);
            END IF;
        END IF;
    END IF;
    IF p_others IS NOT NULL THEN
        SELECT * INTO o FROM windlass.finish_others(p_worker, p_flush, p_others);
        applied := applied + o.applied;
        repeated := repeated + o.repeated;
        refused_jobs := o.refused;
        freed := freed || o.freed;
    END IF;
    IF freed <> '{}' AND p_admit IS NOT NULL
       AND current_setting('transaction_isolation') = 'read committed' THEN
        SELECT a.left_over, a.handed INTO freed, handed
          FROM windlass.admit_freed(p_worker, freed, p_admit, p_queues, p_rooms, p_tokens, p_runs) AS a;
    ELSIF freed <> '{}' THEN
        PERFORM windlass.mark_gates_changed(freed, false);
    END IF;
    IF (p_jobs IS NOT NULL OR p_others IS NOT NULL)
       AND pg_sequence_last_value('windlass.awaited'::regclass) = 1 THEN
        PERFORM windlass.wake('!');
    END IF;
END $$;

-- As finish, and hands over to the worker jobs that the flush let go: commits, and only then answers, as
-- claim does [rule 2]. They are in arrays, one element for each job.
-- Callers: the store, outside of any transaction. May call: worker. Plan: none (with settings it could not
-- commit). Lock: those of finish; those of claim_recheck, in a transaction of its own, where some task has a
-- limit by setting.
CREATE OR REPLACE PROCEDURE windlass.finish_and_claim(
    p_worker bigint, p_flush bigint,
    p_lanes int[], p_claims bigint[], p_seqs text[], p_ns int[],
    p_jobs bigint[], p_job_claims bigint[], p_job_lanes int[], p_job_seqs bigint[], p_results text[],
    p_others json, p_forgets boolean[], p_admit int, p_queues text[], p_rooms int[], p_tokens text[],
    p_runs int[], INOUT applied bigint DEFAULT NULL, INOUT repeated bigint DEFAULT NULL,
    INOUT refused_claims bigint[] DEFAULT NULL, INOUT refused_seqs text[] DEFAULT NULL,
    INOUT refused_jobs bigint[] DEFAULT NULL, INOUT freed text[] DEFAULT NULL,
    INOUT lanes int[] DEFAULT NULL, INOUT queues text[] DEFAULT NULL,
    INOUT priorities smallint[] DEFAULT NULL, INOUT claims bigint[] DEFAULT NULL,
    INOUT seqs bigint[] DEFAULT NULL, INOUT ids bigint[] DEFAULT NULL, INOUT tasks text[] DEFAULT NULL,
    INOUT payloads text[] DEFAULT NULL, INOUT options text[] DEFAULT NULL,
    INOUT attempts smallint[] DEFAULT NULL, INOUT deaths smallint[] DEFAULT NULL,
    INOUT enqueued float8[] DEFAULT NULL, INOUT offered float8[] DEFAULT NULL,
    INOUT runs bigint[] DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
    v_done   record;
    v_handed windlass.handed[];
BEGIN
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    v_done := windlass.finish(p_worker, p_flush, p_lanes, p_claims, p_seqs, p_ns, p_jobs, p_job_claims,
                              p_job_lanes, p_job_seqs, p_results, p_others, p_forgets, p_admit, p_queues,
                              p_rooms, p_tokens, p_runs);
    applied := v_done.applied;
    repeated := v_done.repeated;
    refused_claims := v_done.refused_claims;
    refused_seqs := v_done.refused_seqs;
    refused_jobs := v_done.refused_jobs;
    freed := v_done.freed;
    v_handed := v_done.handed;
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    IF cardinality(v_handed) > 0
       AND EXISTS (SELECT FROM windlass.task_setting s WHERE s.concurrency IS NOT NULL) THEN
        v_handed := windlass.handed_recheck(p_worker, v_handed);
        COMMIT;
    END IF;
    SELECT array_agg(h.lane), array_agg(h.queue), array_agg(h.priority), array_agg(h.claim), array_agg(h.seq),
           array_agg(h.id), array_agg(h.task), array_agg(h.payload::text), array_agg(h.options::text),
           array_agg(h.attempt), array_agg(h.deaths), array_agg(h.enqueued), array_agg(h.offered),
           array_agg(h.run)
      INTO lanes, queues, priorities, claims, seqs, ids, tasks, payloads, options, attempts, deaths, enqueued,
           offered, runs
      FROM unnest(v_handed) AS h;
END $$;

-- Records the attempts that did not simply succeed, and applies the outcome to each job.
-- Callers: finish, which holds the fence. May call: worker. Plan: the caller's. Lock: those of offer.
-- A cancel that was asked for turns every outcome but dead into cancelled [O5]; a retry of the last attempt
-- is a death [O4]. The outcome rows come first: only jobs whose row was added here go on, so that a flush
-- sent twice, even at the same moment, moves each job once.
CREATE OR REPLACE FUNCTION windlass.finish_others(
    p_worker bigint, p_flush bigint, p_others json, OUT applied bigint, OUT repeated bigint,
    OUT refused bigint[], OUT freed text[])
LANGUAGE plpgsql AS $$
DECLARE
    d        record;
    s        record;
    v_ready  windlass.ready;
    v_reason text;
    v_claim  bigint;
    v_ended  bigint[] := ARRAY(SELECT x.id FROM json_to_recordset(p_others) AS x (id bigint));
    v_later  windlass.ready[] := '{}';  -- those that are simply put off, their claims, for how long
    v_claims bigint[] := '{}';
    v_delays float8[] := '{}';
    v_waits  bigint[] := '{}';
BEGIN
    applied := 0;
    repeated := 0;
    refused := '{}';
    freed := '{}';
    FOR d IN
        WITH asked AS MATERIALIZED (
            SELECT *, int8multirange(int8range(seq, seq + 1)) AS seqs FROM json_to_recordset(p_others)
              AS x (id bigint, lane int, claim bigint, seq bigint, kind text, delay float8, type text,
                    message text, traceback text, reason text, began boolean, needs text)),
        held AS MATERIALIZED (  -- what is looked up once for each claim
            SELECT g.lane, g.claim, c.segment, c.worker, c.seqs,
                   windlass.unfinished(g.claim, g.seqs) AS left_over
              FROM (SELECT a.lane, a.claim, range_agg(int8range(a.seq, a.seq + 1)) AS seqs FROM asked a
                     GROUP BY a.lane, a.claim) AS g
              LEFT JOIN LATERAL (SELECT * FROM windlass.claim x WHERE x.lane = g.lane AND x.id = g.claim
                                  LIMIT 1) AS c
                ON true),
        judged AS MATERIALIZED (
            SELECT a.*, h.segment, u.open, r.ready,
                   windlass.is_foreign_claim(h.worker, h.seqs, p_worker, a.seqs, p_flush)
                   OR h.segment IS NOT NULL AND NOT u.open
                   AND NOT windlass.flushed_in(a.claim, p_flush) @> a.seqs AS wrong,
                   CASE WHEN a.kind <> 'dead' AND EXISTS (SELECT FROM windlass.cancel_request q
                                                           WHERE q.job = a.id)
                        THEN 'cancelled'
                        WHEN a.kind = 'retry'
                             AND (r.ready).attempt >= coalesce(((r.ready).options ->> 'max_attempts')::int, 5)
                        THEN 'dead'
                        ELSE a.kind END AS final
              FROM asked a
              JOIN held h ON h.lane = a.lane AND h.claim = a.claim
              LEFT JOIN LATERAL (SELECT y AS ready FROM windlass.ready y
                                  WHERE y.lane = a.lane AND y.seq = a.seq LIMIT 1) AS r
                ON true
             CROSS JOIN LATERAL (SELECT h.left_over @> a.seq AS open) AS u),
        added AS (
            INSERT INTO windlass.outcome (segment, claim, lane, flush, kind, seqs, n, at)
            SELECT segment, claim, lane, p_flush, final, range_agg(int8range(seq, seq + 1)), count(*),
                   windlass.now()
              FROM judged WHERE segment IS NOT NULL AND NOT wrong AND open
             GROUP BY segment, claim, lane, final
            ON CONFLICT DO NOTHING
            RETURNING claim, kind)
        SELECT j.*, j.open AND a.claim IS NOT NULL AS added
          FROM judged j LEFT JOIN added a ON a.claim = j.claim AND a.kind = j.final
         ORDER BY j.final IN ('cancelled', 'dead') DESC, j.claim, j.seq
    LOOP
        IF d.wrong THEN
            refused := refused || d.id;
            CONTINUE;
        ELSIF NOT d.added THEN
            repeated := repeated + 1;
            CONTINUE;
        ELSIF (d.ready).lane IS NULL THEN
            -- The row was moved after this transaction's snapshot was taken [rule 7].
            RAISE EXCEPTION 'job % is not visible to this transaction', d.id
                USING ERRCODE = 'serialization_failure', HINT = 'Run the transaction again.';
        END IF;
        applied := applied + 1;
        v_claim := NULL;
        IF d.final = 'released' AND d.needs IS NOT NULL THEN
            d.delay := 0.001;  -- its lane may have to be declared [K14]
        END IF;
        IF d.final = 'snooze' THEN
            IF d.type IS NULL AND NOT EXISTS (SELECT FROM windlass.pass p WHERE p.job = d.id) THEN
                v_later := v_later || d.ready::windlass.ready;
                v_claims := v_claims || d.claim;
                v_delays := v_delays || d.delay;
                CONTINUE;
            END IF;
            SELECT * INTO s FROM windlass.suspension(d.id, d.claim, d.delay);
            d.delay := s.delay;
            IF s.waits THEN
                v_claim := d.claim;
                v_waits := v_waits || d.id;
            END IF;
        END IF;
        IF d.type IS NOT NULL THEN
            PERFORM windlass.note_failure(d.id, (d.ready).attempt, d.type, d.message, d.traceback);
        END IF;
        IF d.final NOT IN ('cancelled', 'dead')
           AND EXISTS (SELECT FROM windlass.pass p WHERE p.job = d.id AND p.run IS NOT NULL)
           AND windlass.rejoin_list(d.id, (d.ready), (d.ready).attempt + (d.kind = 'retry')::int,
                                    (d.ready).deaths, d.delay, v_ended) THEN
            UPDATE windlass.checkpoint k SET claim = NULL, worker = NULL
             WHERE k.job = d.id AND k.claim = d.claim;
            CONTINUE;
        END IF;
        IF d.final IN ('cancelled', 'dead') OR d.delay > 0 THEN
            freed := freed || windlass.drop_passes(
                ARRAY[d.id], CASE WHEN d.final IN ('cancelled', 'dead') THEN 'all' ELSE 'attempt' END, NULL);
        END IF;
        IF d.final = 'cancelled' THEN
            PERFORM windlass.settle(ARRAY[d.id], ARRAY[d.lane], ARRAY[d.claim], d.final);
        ELSIF d.final = 'dead' THEN
            v_reason := CASE WHEN d.kind = 'retry' THEN 'exhausted'
                             ELSE coalesce(d.reason, nullif(d.message, ''), 'dead') END;
            PERFORM windlass.bury_job(d.ready, (d.ready).deaths, v_reason);
            PERFORM windlass.settle(ARRAY[d.id], ARRAY[d.lane], ARRAY[d.claim], d.final);
        ELSE
            UPDATE windlass.checkpoint k SET claim = NULL, worker = NULL
             WHERE k.job = d.id AND k.claim = d.claim;
            v_ready := d.ready;
            v_ready.options := windlass.unknown_since(v_ready.options, d.kind = 'unknown');
            IF d.final = 'released' AND d.needs IS NOT NULL THEN
                v_ready.options := coalesce(v_ready.options::jsonb, '{}')
                                   || jsonb_build_object('needs', d.needs);
            END IF;
            IF d.began OR d.kind NOT IN ('unknown', 'released') THEN
                v_ready.options := windlass.without_deadline(v_ready.options);
            END IF;
            PERFORM windlass.reoffer(v_ready, d.delay, v_ready.attempt + (d.kind = 'retry')::int,
                                   v_ready.deaths, d.kind = 'retry', v_claim);
        END IF;
    END LOOP;
    IF cardinality(v_later) > 0 THEN
        v_waits := v_waits || windlass.put_off(v_later, v_claims, v_delays);
    END IF;
    IF v_waits <> '{}' THEN
        INSERT INTO windlass.signal_note (job) SELECT w FROM unnest(v_waits) AS w;
        PERFORM windlass.wake('+');
    END IF;
END $$;

-- Puts jobs off that have neither failed nor hold a pass of a gate, together. Those for whom a signal is
-- there are offered at once. Returns those that wait for signals.
-- Callers: finish_others. May call: worker. Plan: the caller's. Lock: those of offer.
CREATE OR REPLACE FUNCTION windlass.put_off(p_rows windlass.ready[], p_claims bigint[], p_delays float8[])
RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    r       windlass.ready;
    v_waits bigint[];
    v_now   windlass.ready[];
BEGIN
    WITH job AS MATERIALIZED (
        SELECT u.ready, u.claim, s.waits, s.delay
          FROM (SELECT y.ready, y.claim, y.delay, windlass.job_of(y.ready) AS id
                  FROM (SELECT unnest(p_rows) AS ready, unnest(p_claims) AS claim,
                               unnest(p_delays) AS delay) AS y) AS u
         CROSS JOIN LATERAL windlass.suspension(u.id, u.claim, u.delay) AS s),
    put AS (
        INSERT INTO windlass.deferred (id, run_at, enqueued_at, queue, priority, task, payload, options,
                                       attempt, deaths, suspended)
        SELECT windlass.job_of(j.ready), windlass.in_seconds(j.delay), windlass.enqueued_of(j.ready), l.queue,
               l.priority, (j.ready).task, (j.ready).payload,
               CASE WHEN (j.ready).options IS NOT NULL
                    THEN windlass.without_deadline(windlass.unknown_since((j.ready).options, false)) END,
               (j.ready).attempt, (j.ready).deaths, CASE WHEN j.waits THEN j.claim END
          FROM job j JOIN windlass.lane l ON l.id = (j.ready).lane
         WHERE j.delay > 0
        RETURNING id, suspended)
    SELECT ARRAY(SELECT p.id FROM put p WHERE p.suspended IS NOT NULL),
           ARRAY(SELECT j.ready FROM job j WHERE (j.delay > 0) IS NOT TRUE)
      INTO v_waits, v_now;
    UPDATE windlass.checkpoint k SET claim = NULL, worker = NULL
     WHERE k.job = ANY (ARRAY(SELECT windlass.job_of(y) FROM unnest(p_rows) AS y))
       AND k.claim = ANY (p_claims);
    FOREACH r IN ARRAY v_now LOOP
        r.options := windlass.without_deadline(windlass.unknown_since(r.options, false));
        PERFORM windlass.reoffer(r, 0, r.attempt, r.deaths, false);
    END LOOP;
    RETURN v_waits;
END $$;

-- Offers an attempt again: at the back of its lane at once, or through deferred after a delay.
-- p_suspended: the claim under which it began to wait for signals, where it did.
-- Callers: finish_others, put_off, hand_back. May call: worker. Plan: the caller's. Lock: those of offer.
CREATE OR REPLACE FUNCTION windlass.reoffer(
    r windlass.ready, p_delay float8, p_attempt int, p_deaths int, p_retrying boolean,
    p_suspended bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint := windlass.job_of(r);
BEGIN
    IF p_delay > 0 THEN
        INSERT INTO windlass.deferred (id, run_at, enqueued_at, queue, priority, task, payload, options,
                                       attempt, deaths, retrying, suspended)
        SELECT v_id, windlass.in_seconds(p_delay), windlass.enqueued_of(r), l.queue, l.priority, r.task,
               r.payload, r.options, p_attempt, p_deaths, p_retrying, p_suspended
          FROM windlass.lane l WHERE l.id = r.lane;
    ELSE
        PERFORM windlass.offer(r.lane, 1, ARRAY[r.task], ARRAY[r.payload::text], ARRAY[r.options::text],
                               ARRAY[v_id], ARRAY[p_attempt]::smallint[], ARRAY[p_deaths]::smallint[],
                               ARRAY[windlass.enqueued_of(r)]);
    END IF;
END $$;

-- Moves a job to the dead letters, with its payload and its last 32 failures [O4].
-- Callers: finish_others, hand_back. May call: worker. Plan: the caller's.
-- Lock: none beyond the row it writes.
CREATE OR REPLACE FUNCTION windlass.bury_job(r windlass.ready, p_deaths int, p_reason text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint := windlass.job_of(r);
BEGIN
    INSERT INTO windlass.dead (id, enqueued_at, died_at, queue, priority, task, payload, options, attempt,
                               deaths, reason, errors, error)
    SELECT v_id, windlass.enqueued_of(r), windlass.now(), l.queue, l.priority, r.task, r.payload, r.options,
           r.attempt, p_deaths, p_reason, f.errors, coalesce(f.errors -> -1 ->> 'type', '')
      FROM windlass.lane l
     CROSS JOIN LATERAL (SELECT windlass.failures_of(v_id) AS errors OFFSET 0) AS f
     WHERE l.id = r.lane;
END $$;

-- Keeps one failed attempt in the failure log.
-- Callers: finish_others; finish, with attempt 0, which marks earlier failures as cleared [O1].
-- May call: worker. Plan: the caller's. Lock: pins the segment.
CREATE OR REPLACE FUNCTION windlass.note_failure(
    p_job bigint, p_attempt int, p_type text, p_message text, p_traceback text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO windlass.failure (segment, job, at, attempt, type, message, traceback)
    VALUES (windlass.pin_segment(), p_job, windlass.now(), p_attempt, p_type, p_message, p_traceback);
END $$;

-- The options of a job that is offered again, with the time since when no worker has known its task, or
-- without it [O4].
-- Callers: finish_others, put_off, hand_back, split, retry, retry_many, put_back. May call: worker. Plan: the
-- caller's. Lock: none. The first time counts until the attempt ends in another way.
CREATE OR REPLACE FUNCTION windlass.unknown_since(p_options json, p_unknown boolean) RETURNS json
LANGUAGE plpgsql AS $$
BEGIN
    IF p_unknown AND p_options ->> 'unknown_since' IS NULL THEN
        RETURN (coalesce(p_options::jsonb, '{}')
                || jsonb_build_object('unknown_since', date_part('epoch', windlass.now())))::json;
    ELSIF NOT p_unknown AND p_options ->> 'unknown_since' IS NOT NULL THEN
        RETURN nullif((p_options::jsonb - 'unknown_since')::text, '{}')::json;
    END IF;
    RETURN p_options;
END $$;

-- ==== Whose claim, and what is left of it ====

-- Whether an outcome names a claim that is not the worker's, or seqs outside it [C5].
-- Callers: finish, finish_others, split. May call: worker. Plan: the caller's. Lock: none.
-- A missing claim was reclaimed after it had ended; that is fine if it had this flush of the worker. A
-- snapshot older than the statement may miss a claim that was carried to another segment meanwhile: that
-- transaction must be tried again.
CREATE OR REPLACE FUNCTION windlass.is_foreign_claim(
    p_owner bigint, p_held int8multirange, p_worker bigint, p_seqs int8multirange, p_flush bigint)
RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_owner IS NOT NULL THEN
        RETURN p_owner <> p_worker OR NOT p_held @> p_seqs;
    ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'the claim is not visible to this transaction'
            USING ERRCODE = 'serialization_failure', HINT = 'Run the transaction again.';
    END IF;
    RETURN p_flush > coalesce((SELECT w.flushed FROM windlass.worker w WHERE w.id = p_worker), 0);
END $$;

-- ==== After the end ====

-- Clears what belongs to jobs that have ended for good: checkpoint, cancel request, unique key, passes of
-- gates. Notes the end for their parents, and failures for the jobs that come after them [P12].
-- Callers: every function that ends jobs, with how they ended. May call: worker. Plan: indexed. Lock: the
-- rows of unique_key, without waiting; none of a parent (see note_part_ends). Pins the segment where progress
-- is kept.
-- p_dropped: their passes were taken back before. p_claims and p_lanes name the claim each job ended in, or
-- NULL where it ended waiting; p_snapshot is that claim's, where the caller has kept it. A key that a
-- producer's transaction holds is left to settle_rest: no worker waits for a producer. A part that did not
-- succeed keeps its checkpoint, for its redrive [P9]. The progress of a job stays with it when its checkpoint
-- goes: in the result log, or with the dead letter [P6].
CREATE OR REPLACE FUNCTION windlass.settle(
    p_jobs bigint[], p_lanes int[], p_claims bigint[], p_kind text, p_snapshot pg_snapshot DEFAULT NULL,
    p_dropped boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    u record;
BEGIN
    IF NOT p_dropped THEN
        PERFORM windlass.drop_passes(p_jobs, 'all', true);
    END IF;
    IF EXISTS (SELECT FROM windlass.checkpoint WHERE job = ANY (p_jobs)) THEN
        IF p_kind = 'dead' THEN
            UPDATE windlass.dead d SET done = k.done, total = k.total, saved_at = k.at
              FROM windlass.checkpoint k
             WHERE k.job = ANY (p_jobs) AND d.id = ANY (p_jobs) AND d.id = k.job
               AND (k.done IS NOT NULL OR k.total IS NOT NULL);
        ELSIF p_kind IN ('succeeded', 'cancelled') THEN
            INSERT INTO windlass.result (segment, job, at, done, total)
            SELECT windlass.pin_segment(), k.job, k.at, k.done, k.total FROM windlass.checkpoint k
             WHERE k.job = ANY (p_jobs) AND (k.done IS NOT NULL OR k.total IS NOT NULL);
        END IF;
    END IF;
    IF EXISTS (SELECT FROM windlass.part WHERE job = ANY (p_jobs)) THEN
        PERFORM windlass.note_part_ends(p_jobs, p_kind);
        DELETE FROM windlass.checkpoint k
         WHERE k.job = ANY (p_jobs)
           AND (p_kind = 'succeeded' OR NOT EXISTS (SELECT FROM windlass.part t
                                                     WHERE t.job = k.job AND t.index >= 0));
        UPDATE windlass.checkpoint k SET claim = NULL, worker = NULL
         WHERE k.job = ANY (p_jobs) AND k.claim IS NOT NULL;
    ELSE
        DELETE FROM windlass.checkpoint WHERE job = ANY (p_jobs);
    END IF;
    IF p_kind <> 'succeeded' THEN
        INSERT INTO windlass.ended_otherwise (job, at, kind)
        SELECT a, windlass.now(), p_kind FROM unnest(p_jobs) AS a ON CONFLICT DO NOTHING;
    END IF;
    PERFORM windlass.note_ends(p_jobs, p_kind);
    DELETE FROM windlass.cancel_request WHERE job = ANY (p_jobs);
    IF NOT EXISTS (SELECT FROM windlass.unique_key WHERE job = ANY (p_jobs)) THEN
        RETURN;
    END IF;
    FOR u IN SELECT a.job, k.key, coalesce(p_snapshot, c.snapshot) AS snapshot
               FROM unnest(p_jobs, p_lanes, p_claims) AS a (job, lane, claim)
               JOIN windlass.unique_key k ON k.job = a.job
               LEFT JOIN LATERAL (SELECT x.snapshot FROM windlass.claim x
                                   WHERE x.lane = a.lane AND x.id = a.claim) AS c
                 ON true LOOP
        -- Consecutive dead runs of a key are counted. A success, or 7 days without a dead run, resets that
        -- [O7].
        IF p_kind = 'succeeded' THEN
            DELETE FROM windlass.key_death WHERE key = u.key;
        ELSIF p_kind = 'dead' THEN
            INSERT INTO windlass.key_death AS k (key, at, deaths) VALUES (u.key, windlass.now(), 1)
            ON CONFLICT (key) DO UPDATE SET at = excluded.at,
               deaths = CASE WHEN k.at > excluded.at - interval ':retry.FORGET_AFTER s'
                             THEN k.deaths + 1 ELSE 1 END;
        END IF;
        IF NOT windlass.free_key(u.job, u.snapshot) THEN
            INSERT INTO windlass.unsettled (job, snapshot) VALUES (u.job, u.snapshot) ON CONFLICT DO NOTHING;
        END IF;
    END LOOP;
END $$;

-- ==== Checkpoints ====

-- Makes a job's progress durable, fenced by worker and claim [C5]. False: the claim is not the worker's, or
-- the job has ended.
-- Callers: the store, also inside a handler's own transaction. May call: worker. Plan: pinned. Lock: the life
-- row FOR KEY SHARE, see worker_fence. That the claim holds the job is looked up once: from then on the
-- checkpoint says so itself, until the attempt has ended (see finish_others, hand_back, settle). Nobody but
-- its own worker can end the attempt of a worker that is alive.
CREATE OR REPLACE FUNCTION windlass.checkpoint(
    p_worker bigint, p_job bigint, p_lane int, p_claim bigint, p_seq bigint, p_data text, p_done bigint,
    p_total bigint)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM windlass.worker_fence(p_worker, true);
    UPDATE windlass.checkpoint k
       SET at = windlass.now(), done = p_done, total = p_total, data = p_data::json
     WHERE k.job = p_job AND k.claim = p_claim AND k.worker = p_worker;
    IF FOUND THEN
        RETURN true;
    END IF;
    PERFORM FROM windlass.claim c
      WHERE c.lane = p_lane AND c.id = p_claim AND c.worker = p_worker
        AND windlass.unfinished(c.id, c.seqs) @> p_seq;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO windlass.checkpoint AS k (job, claim, worker, at, done, total, data)
    VALUES (p_job, p_claim, p_worker, windlass.now(), p_done, p_total, p_data::json)
    ON CONFLICT (job) DO UPDATE SET claim = excluded.claim, worker = excluded.worker, at = excluded.at,
                                    done = excluded.done, total = excluded.total, data = excluded.data;
    RETURN true;
END $$;

-- ==== Statements that the store sends ====

-- :checkpoints
-- Checkpoints of some jobs.
-- Callers: the store's checkpoints. Lock: none.
SELECT job, data, done, total, at FROM windlass.checkpoint WHERE job = ANY ($1)
