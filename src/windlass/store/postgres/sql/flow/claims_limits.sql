-- What becomes of a claim's jobs where their task has a limit or needs tokens: jobs without room are put
-- aside again.

-- ==== Limits of tasks ====

-- Checks the jobs of a claim whose task was given a limit after they entered their lane [F3]. Jobs for which
-- there is room get their pass; the others go to the task's waiting list. So do those that have a pass, where
-- the limit was lowered since: see claim_called_back. Returns the places of the jobs that stay.
-- Callers: claim, after claim_take, where some task has a limit by setting; claim_recheck. May call: worker.
-- Plan: pinned. Lock: the gates, without waiting; the caller holds the lane, or has committed the claim.
CREATE OR REPLACE FUNCTION windlass.claim_gated(
    p_lane int, p_claim bigint, p_stays int[], p_seqs bigint[], p_jobs bigint[], p_tasks text[],
    p_options text[], p_enqueued float8[]) RETURNS int[]
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    g       record;
    v_mine  text[] := windlass.at_places(p_tasks, p_stays);
    v_tasks text[] := windlass.limited_tasks(v_mine);
    v_room  bigint;
    v_aside int[] := '{}';
    v_gates text[];
    v_over  text[] := '{}';  -- by place, the gate that calls the job back
BEGIN
    IF v_tasks = '{}' AND NOT EXISTS (SELECT FROM windlass.task_setting t
                                       WHERE t.key_concurrency IS NOT NULL) THEN
        RETURN p_stays;
    END IF;
    IF EXISTS (SELECT FROM windlass.task_setting t
                WHERE t.name = ANY (v_mine)
                  AND (t.key_concurrency IS NOT NULL
                       OR t.concurrency < windlass.places_taken('task:' || t.name))) THEN
        v_over := windlass.claim_called_back(p_stays, p_jobs, p_tasks, p_options);
        v_aside := ARRAY(SELECT u.i::int FROM unnest(v_over) WITH ORDINALITY AS u (gate, i)
                          WHERE u.gate IS NOT NULL);
    END IF;
    FOR g IN SELECT 'task:' || u.task AS gate, u.task, array_agg(u.place ORDER BY u.place) AS places
               FROM unnest(p_stays, v_mine) AS u (place, task)
              WHERE u.task = ANY (v_tasks) AND v_over[u.place] IS NULL
                AND NOT EXISTS (SELECT FROM windlass.pass p
                                 WHERE p.job = p_jobs[u.place] AND p.gate || '' = 'task:' || u.task OFFSET 0)
              GROUP BY u.task ORDER BY u.task COLLATE "C" LOOP
        v_room := 0;
        IF windlass.gate_lock(g.gate, 0) THEN
            -- A count of running jobs may have committed since the passes were read.
            g.places := ARRAY(SELECT u FROM unnest(g.places) AS u
                               WHERE NOT EXISTS (SELECT FROM windlass.pass p
                                                  WHERE p.job = p_jobs[u] AND p.gate || '' = g.gate OFFSET 0)
                                                  ORDER BY u);
            IF NOT EXISTS (SELECT FROM windlass.list_from(g.gate) AS s CROSS JOIN windlass.held h
                            WHERE h.gate = g.gate AND h.turn >= s.turn) THEN
                PERFORM windlass.count_running(g.task, p_claim);
                v_room := greatest((SELECT t.concurrency FROM windlass.task_setting t WHERE t.name = g.task)
                                   - windlass.places_taken(g.gate), 0);
            END IF;
        END IF;
        INSERT INTO windlass.pass (gate, job, need, turn, enqueued_at, at)
        SELECT g.gate, p_jobs[u.place], 1, nextval('windlass.held_turn'), to_timestamp(p_enqueued[u.place]),
               windlass.now()
          FROM unnest(g.places) WITH ORDINALITY AS u (place, no) WHERE u.no <= v_room;
        v_aside := v_aside || g.places[least(v_room, 2147483646)::int + 1:];
    END LOOP;
    IF v_aside <> '{}' THEN
        v_aside := ARRAY(SELECT a FROM unnest(v_aside) AS a ORDER BY a);
        v_gates := ARRAY(SELECT coalesce(v_over[a], 'task:' || p_tasks[a]) FROM unnest(v_aside) AS a);
        PERFORM windlass.claim_aside(p_lane, p_claim, windlass.at_places(p_seqs, v_aside),
                                     windlass.at_places(p_jobs, v_aside), v_gates,
                                     array_fill(1, ARRAY[cardinality(v_aside)]));
        p_stays := ARRAY(SELECT s FROM unnest(p_stays) AS s WHERE s <> ALL (v_aside));
    END IF;
    RETURN p_stays;
END $$;

-- Checks the jobs of a claim once more after its commit, before they are given out. A task may have been
-- given its limit while the claim was under way, and whoever counted then did not see the claim; whoever
-- counts later does [F3]. Returns the places of those that stay; jobs without room are put aside, as in
-- claim_gated.
-- Callers: claim, handed_recheck, in a transaction of its own. May call: worker. Plan: pinned. Lock: mostly
-- none; else the worker's life row, as claim_take, since its jobs may belong to others by now; ACCESS SHARE
-- on claim, as in finish; those of claim_gated.
CREATE OR REPLACE FUNCTION windlass.claim_recheck(
    p_lane int, p_worker bigint, p_claim bigint, p_stays int[], p_seqs bigint[], p_jobs bigint[],
    p_tasks text[], p_options text[], p_enqueued float8[]) RETURNS int[]
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_mine  text[] := windlass.at_places(p_tasks, p_stays);
    v_tasks text[] := windlass.limited_tasks(v_mine);
    v_stays int[];
BEGIN
    IF v_tasks = '{}'
       OR NOT EXISTS (SELECT FROM unnest(p_stays, v_mine) AS u (place, task)
                       WHERE u.task = ANY (v_tasks)
                         AND NOT EXISTS (SELECT FROM windlass.pass p
                                          WHERE p.job = p_jobs[u.place] AND p.gate || '' = 'task:' || u.task
                                         OFFSET 0)) THEN
        RETURN p_stays;
    END IF;
    PERFORM windlass.worker_fence(p_worker);
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    v_stays := windlass.claim_gated(p_lane, p_claim, p_stays, p_seqs, p_jobs, p_tasks, p_options, p_enqueued);
    IF cardinality(v_stays) < cardinality(p_stays) THEN
        -- A concurrent count may give a pass to jobs that were put aside here.
        INSERT INTO windlass.uncounted_task (task) SELECT unnest(v_tasks);
    END IF;
    RETURN v_stays;
END $$;

-- The same for jobs that a flush has handed over; returns those that stay.
-- Callers: finish_and_claim, in a transaction of its own. May call: worker. Plan: free.
-- Lock: those of claim_recheck.
CREATE OR REPLACE FUNCTION windlass.handed_recheck(
    p_worker bigint, p_handed windlass.handed[]) RETURNS windlass.handed[]
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    g       record;
    v_seqs  bigint[];
    v_stays windlass.handed[] := '{}';
BEGIN
    p_handed := windlass.break_runs(p_worker, p_handed);
    FOR g IN SELECT h.lane, h.claim, array_agg(h.seq) AS seqs, array_agg(h.id) AS jobs,
                    array_agg(h.task) AS tasks, array_agg(h.options::text) AS options,
                    array_agg(h.enqueued) AS enqueued
               FROM unnest(p_handed) AS h GROUP BY h.lane, h.claim LOOP
        v_seqs := windlass.at_places(
            g.seqs, windlass.claim_recheck(g.lane, p_worker, g.claim,
                                           ARRAY(SELECT generate_series(1, cardinality(g.seqs))), g.seqs,
                                           g.jobs, g.tasks, g.options, g.enqueued));
        v_stays := v_stays || ARRAY(SELECT h FROM unnest(p_handed) AS h
                                     WHERE h.claim = g.claim AND h.seq = ANY (v_seqs));
    END LOOP;
    RETURN v_stays;
END $$;

-- Which jobs of a claim must wait again because the limit of a key or a task was lowered when they had its
-- pass: by place the gate, or NULL. They start only while fewer run than the limit says now [F3].
-- Callers: claim_gated. May call: worker. Plan: pinned. Lock: the gates that have more passes than their
-- limit, without waiting: so of two claims the second counts what the first has started.
CREATE OR REPLACE FUNCTION windlass.claim_called_back(
    p_stays int[], p_jobs bigint[], p_tasks text[], p_options text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    g         record;
    v_over    text[] := array_fill(NULL::text, ARRAY[cardinality(p_jobs)]);
    v_passes  jsonb := '{}';  -- by gate
    v_started jsonb := '{}';  -- by gate, of those with more passes than their limit
BEGIN
    FOR g IN SELECT u.place, p.gate,
                    windlass.gate_limit(split_part(p.gate, ':', 1), t.name, p_options[u.place]::json) AS most
               FROM unnest(p_stays) AS u (place)
               JOIN windlass.task_setting t ON t.name = p_tasks[u.place]
              CROSS JOIN LATERAL (SELECT x.gate FROM windlass.pass x
                                   WHERE x.job = p_jobs[u.place] OFFSET 0) AS p
              WHERE p.gate LIKE 'key:%' AND t.key_concurrency IS NOT NULL
                 OR p.gate LIKE 'task:%' AND t.concurrency IS NOT NULL
              ORDER BY u.place, p.gate COLLATE "C" LOOP
        CONTINUE WHEN v_over[g.place] IS NOT NULL;
        IF NOT v_passes ? g.gate THEN
            v_passes := v_passes || jsonb_build_object(g.gate, windlass.places_taken(g.gate));
        END IF;
        CONTINUE WHEN (v_passes ->> g.gate)::bigint <= g.most;
        IF NOT v_started ? g.gate THEN
            v_started := v_started || jsonb_build_object(
                g.gate, CASE WHEN windlass.gate_lock(g.gate, 0) THEN windlass.count_started(g.gate, p_jobs)
                             ELSE 2147483647 END);
        END IF;
        IF (v_started ->> g.gate)::bigint >= g.most THEN
            v_over[g.place] := g.gate;
            v_passes := v_passes || jsonb_build_object(g.gate, (v_passes ->> g.gate)::bigint - 1);
        ELSE
            v_started := v_started || jsonb_build_object(g.gate, (v_started ->> g.gate)::bigint + 1);
        END IF;
    END LOOP;
    RETURN v_over;
END $$;

-- How many places of a gate are taken by running jobs, not counting p_but: see places_taken.
-- Callers: claim_called_back. May call: worker. Plan: pinned. Lock: ACCESS SHARE on claim, as in finish; the
-- gate's, held by the caller.
CREATE OR REPLACE FUNCTION windlass.count_started(p_gate text, p_but bigint[]) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    RETURN (SELECT count(*) FILTER (WHERE p.run IS NULL) + count(DISTINCT p.run)
              FROM windlass.pass p CROSS JOIN LATERAL windlass.locate(p.job) AS l
             WHERE p.gate = p_gate AND p.job <> ALL (p_but) AND l.claim IS NOT NULL AND l.kind IS NULL);
END $$;

-- ==== Tokens ====

-- Takes the tokens that the jobs of a claim need, in the claim's transaction, and returns the places of the
-- jobs that got theirs (`stays`) [F1]. The others go to the waiting list of the bucket that lacks tokens.
-- While anybody is in that list, jobs from the lane queue up behind; those let out of the list (they hold its
-- pass) come first. A bucket that another keeps locked has no tokens: so only those who need it wait for that
-- transaction [S2].
-- p_needs: {task: [{"budget": ..., "n": ..., "argument": ..., "place": ...}, ...]}. `busy`: a budget was
-- drained or its breaker opened meanwhile, so the caller must roll back. `starts`: {position: seconds} of
-- those that must wait for tokens which they have booked.
-- Callers: claim, after claim_take. May call: worker. Plan: pinned. Lock: the rows of the buckets that have
-- tokens to give, in the order of budget and key, one waited for p_wait ms at most and the others tried, then
-- those of half-open budgets, without waiting, until the transaction ends; the caller holds the lane. Nobody
-- who holds such a row waits for a lane.
-- Tokens that were promised to jobs on their way from the waiting list to a claim are left for them. Nothing
-- is taken before every job is judged, so that the probe of a half-open breaker is a job that leaves with the
-- claim [F7].
CREATE OR REPLACE FUNCTION windlass.claim_tokens(
    p_lane int, p_claim bigint, p_needs json, INOUT stays int[], p_seqs bigint[], p_jobs bigint[],
    p_tasks text[], p_payloads text[], p_options text[], p_wait int DEFAULT 100, OUT busy boolean,
    OUT starts jsonb)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    b          record;
    j          record;
    v_now      float8;
    v_wants    windlass.want[];
    v_budget   windlass.budget;
    v_bucket   windlass.bucket;
    v_unasked  text[] := '{}';     -- gates of buckets that others keep locked, or wait for
    -- By bucket, in the order of budget and key:
    v_budgets  text[] := '{}';
    v_keys     text[] := '{}';
    v_gates    text[] := '{}';
    v_rates    float8[] := '{}';
    v_bursts   float8[] := '{}';
    v_levels   float8[] := '{}';   -- tokens that it holds
    v_left     int[] := '{}';      -- tokens that it can still give, with those that may be booked
    v_promised int[] := '{}';      -- of these, those of jobs on their way from its waiting list
    v_used     int[] := '{}';      -- tokens that jobs of this claim take
    v_waiting  boolean[] := '{}';  -- somebody waits for it, so jobs from the lane queue up behind
    v_probes   boolean[] := '{}';  -- its breaker is half-open: one job may go, the probe
    v_enough   boolean := true;    -- each has enough for all jobs
    v_no       int;                -- one of them
    v_lacks    int;                -- the one that has too little for a job
    v_starts   float8;             -- in how many seconds the tokens that a job books are there
    -- By job that is put aside:
    v_aside    int[] := '{}';
    v_lists    text[] := '{}';
    v_ns       int[] := '{}';
BEGIN
    busy := windlass.claim_tokens_quickly(p_needs, windlass.at_places(p_tasks, stays), p_wait);
    IF busy OR busy IS NULL THEN
        busy := busy IS NULL;
        RETURN;
    END IF;
    v_wants := windlass.claim_token_needs(p_needs, stays, p_tasks, p_payloads, p_options);
    IF windlass.claim_tokens_at_once(v_wants, p_wait) THEN
        RETURN;
    END IF;
    FOR b IN SELECT w.budget, w.key, 'budget:' || w.budget || '/' || w.key AS gate,
                    array_agg(p_jobs[w.place]) AS jobs
               FROM unnest(v_wants) AS w GROUP BY w.budget, w.key
              ORDER BY w.budget COLLATE "C", w.key COLLATE "C" LOOP
        IF EXISTS (SELECT FROM windlass.held h WHERE h.gate = b.gate)
           AND NOT EXISTS (SELECT FROM windlass.pass p
                            WHERE p.job = ANY (b.jobs) AND p.gate || '' = b.gate) THEN
            v_unasked := v_unasked || b.gate;
        ELSIF NOT windlass.bucket_try(b.budget, b.key, p_wait) THEN
            v_unasked := v_unasked || b.gate;
            p_wait := 1;
        END IF;
    END LOOP;
    v_now := windlass.unix_time();
    FOR b IN SELECT w.budget, w.key, 'budget:' || w.budget || '/' || w.key AS gate, sum(w.n) AS n,
                    array_agg(p_jobs[w.place]) AS jobs,
                    coalesce(bool_or(x.openings > 0 AND x.breaker > 0), false) AS probe
               FROM unnest(v_wants) AS w LEFT JOIN windlass.budget x ON x.name = w.budget
              GROUP BY w.budget, w.key ORDER BY w.budget COLLATE "C", w.key COLLATE "C" LOOP
        IF b.probe THEN
            PERFORM FROM windlass.budget x WHERE x.name = b.budget FOR NO KEY UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                v_unasked := v_unasked || b.gate;
            END IF;
        END IF;
        v_budgets := v_budgets || b.budget;
        v_keys := v_keys || b.key;
        v_gates := v_gates || b.gate;
        v_left := v_left || CASE WHEN b.gate = ANY (v_unasked) THEN 0
                                 ELSE windlass.bucket_tokens(b.budget, b.key, :budgets.MOST_TOKENS, v_now,
                                                             true) END;
        v_promised := v_promised || windlass.promised_tokens(b.gate, b.jobs);
        v_used := v_used || least(b.n, 2147483647)::int;
        v_waiting := v_waiting || (b.gate = ANY (v_unasked)
                                   OR EXISTS (SELECT FROM windlass.held h WHERE h.gate = b.gate));
        v_probes := v_probes || b.probe;
        SELECT * INTO v_budget FROM windlass.budget x WHERE x.name = b.budget;
        v_bucket := windlass.bucket_at(v_budget, windlass.bucket_of(v_budget, b.key), v_now);
        v_rates := v_rates || v_budget.rate;
        v_bursts := v_bursts || v_budget.burst;
        v_levels := v_levels || v_bucket.tokens - v_budget.rate * (v_bucket.at - v_now);
        v_no := cardinality(v_gates);
        v_enough := v_enough AND NOT b.probe AND NOT v_waiting[v_no]
                    AND b.n <= v_left[v_no] - v_promised[v_no] AND b.n <= v_levels[v_no] - v_promised[v_no];
    END LOOP;
    IF NOT v_enough THEN
        v_used := array_fill(0, ARRAY[cardinality(v_gates)]);
        -- Jobs that were let out of a waiting list come first.
        FOR j IN SELECT w.place, array_agg(g.no::int ORDER BY g.no) AS buckets,
                        array_agg(w.n ORDER BY g.no) AS needs,
                        array_agg(p.job IS NOT NULL ORDER BY g.no) AS admitted
                   FROM unnest(v_wants) AS w
                   JOIN unnest(v_gates) WITH ORDINALITY AS g (gate, no)
                     ON g.gate = 'budget:' || w.budget || '/' || w.key
                   LEFT JOIN windlass.pass p ON p.job = p_jobs[w.place] AND p.gate || '' = g.gate
                  GROUP BY w.place ORDER BY bool_or(p.job IS NOT NULL) DESC, w.place LOOP
            SELECT u.no INTO v_lacks FROM unnest(j.buckets, j.needs, j.admitted) AS u (no, n, admitted)
             WHERE v_left[u.no] < u.n OR v_bursts[u.no] < u.n
                OR NOT u.admitted AND (v_waiting[u.no] OR v_left[u.no] - u.n < v_promised[u.no]
                                       OR v_probes[u.no] AND v_promised[u.no] > 0)
             ORDER BY u.no LIMIT 1;
            IF v_lacks IS NULL THEN
                v_starts := 0;
                FOR k IN 1..cardinality(j.buckets) LOOP
                    v_no := j.buckets[k];
                    v_used[v_no] := v_used[v_no] + j.needs[k];
                    v_starts := greatest(v_starts, (v_used[v_no] - v_levels[v_no]
                                                    + CASE WHEN j.admitted[k] THEN 0
                                                           ELSE v_promised[v_no] END)
                                                   / nullif(v_rates[v_no], 0));
                    v_left[v_no] := CASE WHEN v_probes[v_no] THEN 0 ELSE v_left[v_no] - j.needs[k] END;
                END LOOP;
                IF v_starts > 0 THEN
                    starts := coalesce(starts, '{}') || jsonb_build_object(p_seqs[j.place], v_starts);
                END IF;
            ELSE
                v_waiting[v_lacks] := true;
                v_aside := v_aside || j.place;
                v_lists := v_lists || v_gates[v_lacks];
                v_ns := v_ns || j.needs[array_position(j.buckets, v_lacks)];
            END IF;
        END LOOP;
    END IF;
    FOR k IN 1..cardinality(v_gates) LOOP
        -- Less than was judged: a drain or a failure was reported meanwhile.
        IF v_used[k] > 0 AND windlass.bucket_take(v_budgets[k], v_keys[k], v_used[k], true, 1, v_now,
                                                  true) < v_used[k] THEN
            busy := true;
            RETURN;
        END IF;
    END LOOP;
    IF v_aside <> '{}' THEN
        PERFORM windlass.claim_aside(p_lane, p_claim, windlass.at_places(p_seqs, v_aside),
                                     windlass.at_places(p_jobs, v_aside), v_lists, v_ns);
        stays := ARRAY(SELECT s FROM unnest(stays) AS s WHERE s <> ALL (v_aside));
    END IF;
END $$;

-- The fast path of claim_tokens: all jobs draw from buckets without a key and cost the same, no waiting list
-- is in use, and each bucket has enough for all of them. False: that is not so, or another keeps one locked,
-- and nothing was taken [F1]. A half-open breaker has enough for one: its probe is one job, not a whole claim
-- [F7]. NULL: the caller must roll back. Callers: claim_tokens. May call: worker. Plan: pinned. Lock: the
-- rows of the buckets, in the order of budgets, until the transaction ends. All are checked before any is
-- taken from, since a probe cannot be given back.
CREATE OR REPLACE FUNCTION windlass.claim_tokens_quickly(
    p_needs json, p_tasks text[], p_wait int) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    b       record;
    v_names text[] := '{}';
    v_ns    int[] := '{}';
    v_now   float8;
BEGIN
    FOR b IN SELECT n.budget, 'budget:' || n.budget || '/' AS gate,
                    least(sum(n.n * t.n), 2147483647)::int AS n,
                    bool_or(n.argument IS NOT NULL OR n.costed) AS keyed
               FROM (SELECT x.task, count(*) AS n FROM unnest(p_tasks) AS x (task) GROUP BY x.task) AS t
               JOIN windlass.needs_by_task(p_needs) AS n ON n.task = t.task
              GROUP BY n.budget ORDER BY n.budget COLLATE "C" LOOP
        IF b.keyed OR EXISTS (SELECT FROM windlass.held h WHERE h.gate = b.gate)
           OR EXISTS (SELECT FROM windlass.pass p WHERE p.gate = b.gate)
           OR windlass.bucket_tokens(b.budget, '') < b.n THEN
            RETURN false;
        END IF;
        v_names := v_names || b.budget;
        v_ns := v_ns || b.n;
    END LOOP;
    FOR k IN 1..cardinality(v_names) LOOP
        IF NOT windlass.bucket_try(v_names[k], '', p_wait) THEN
            RETURN false;
        END IF;
    END LOOP;
    v_now := windlass.unix_time();
    FOR k IN 2..cardinality(v_names) LOOP
        IF windlass.bucket_tokens(v_names[k], '', 1, v_now) < v_ns[k] THEN
            RETURN false;
        END IF;
    END LOOP;
    FOR k IN 1..cardinality(v_names) LOOP
        IF windlass.bucket_take(v_names[k], '', v_ns[k], true, 1, v_now) < v_ns[k] THEN
            -- The first had too little; another, which had enough, was drained just now.
            RETURN CASE WHEN k = 1 THEN false END;
        END IF;
    END LOOP;
    RETURN true;
END $$;

-- The fast path for buckets with keys: takes from all of them in one step, where each has enough, no waiting
-- list is in use and no breaker is open. False: that is not so, and nothing was taken [F1].
-- Callers: claim_tokens. May call: worker. Plan: generic, pinned, nested. Lock: the rows of the buckets until
-- the transaction ends; those that another has locked are not waited for, and a new one that another adds for
-- p_wait ms at most.
-- New buckets are added in the order of budget and key, so that no two of these deadlock.
CREATE OR REPLACE FUNCTION windlass.claim_tokens_at_once(p_wants windlass.want[], p_wait int) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_before  text := current_setting('lock_timeout');
    v_budgets text[];
    v_keys    text[];
    v_ns      bigint[];
    v_states  windlass.bucket[];
    v_now     float8;
    v_mine    int;
    v_added   int;
BEGIN
    SELECT array_agg(a.budget), array_agg(a.key), array_agg(a.n) INTO v_budgets, v_keys, v_ns
      FROM (SELECT w.budget COLLATE "C" AS budget, w.key COLLATE "C" AS key, sum(w.n) AS n
              FROM unnest(p_wants) AS w GROUP BY 1, 2 ORDER BY 1, 2) AS a;
    IF EXISTS (SELECT FROM unnest(v_budgets, v_keys) AS u (budget, key)
                CROSS JOIN LATERAL (SELECT 'budget:' || u.budget || '/' || u.key OFFSET 0) AS g (gate)
                WHERE EXISTS (SELECT FROM windlass.held h WHERE h.gate = g.gate OFFSET 0)
                   OR EXISTS (SELECT FROM windlass.pass p WHERE p.gate = g.gate OFFSET 0)) THEN
        RETURN false;
    END IF;
    -- A subtransaction, which lets go of all of them: whoever waits holds only earlier ones.
    BEGIN
        PERFORM set_config('lock_timeout', greatest(p_wait, 1) || 'ms', true);
        PERFORM FROM unnest(v_budgets, v_keys) AS u (budget, key)
          CROSS JOIN LATERAL (SELECT FROM windlass.bucket x WHERE x.budget = u.budget AND x.key = u.key
                                 FOR UPDATE NOWAIT) AS k;
        GET DIAGNOSTICS v_mine = ROW_COUNT;
        IF v_mine < cardinality(v_keys) THEN
            -- Full, and with an old time, as in bucket_lock.
            INSERT INTO windlass.bucket (budget, key, tokens, at)
            SELECT u.budget, u.key, b.burst, 0
              FROM unnest(v_budgets, v_keys) WITH ORDINALITY AS u (budget, key, i)
              JOIN windlass.budget b ON b.name = u.budget
             WHERE NOT EXISTS (SELECT FROM windlass.bucket x
                                WHERE x.budget = u.budget AND x.key = u.key OFFSET 0)
             ORDER BY u.i
            ON CONFLICT DO NOTHING;
            GET DIAGNOSTICS v_added = ROW_COUNT;
            IF v_mine + v_added < cardinality(v_keys) THEN
                RAISE lock_not_available;  -- another has added one meanwhile, or there is no such budget
            END IF;
        END IF;
        PERFORM set_config('lock_timeout', v_before, true);
    EXCEPTION WHEN lock_not_available THEN
        RETURN false;
    END;
    -- Read after the locks, as in bucket_take.
    v_now := windlass.unix_time();
    SELECT array_agg(s.state ORDER BY u.i) INTO v_states
      FROM unnest(v_budgets, v_keys, v_ns) WITH ORDINALITY AS u (budget, key, n, i)
      JOIN windlass.budget b ON b.name = u.budget
      JOIN windlass.bucket x ON x.budget = u.budget AND x.key = u.key
     CROSS JOIN LATERAL (SELECT windlass.bucket_at(b, x, v_now) AS state OFFSET 0) AS s
     WHERE windlass.breaker_state(b, v_now) = 'closed' AND v_now >= (s.state).paused_until
       AND windlass.bucket_left(b, s.state) >= u.n;
    IF v_states IS NULL OR cardinality(v_states) < cardinality(v_keys) THEN
        RETURN false;
    END IF;
    UPDATE windlass.bucket x
       SET tokens = u.tokens - v_ns[u.i], at = u.at, paused_until = u.paused_until,
           leased_until = u.leased_until, drains = u.drains, used = u.used + v_ns[u.i],
           used_until = u.used_until
      FROM unnest(v_states) WITH ORDINALITY
        AS u (tokens, at, paused_until, leased_until, whole_until, drains, used, used_until, budget, key, i)
     WHERE x.budget = u.budget AND x.key = u.key;
    RETURN true;
END $$;

-- Drops the token passes of jobs that leave with a claim, including those of budgets that their task no
-- longer needs: otherwise tokens would stay reserved for them while they run [F1]. p_jobs: the jobs that
-- carry their id; no other was in a waiting list.
-- Callers: claim. May call: worker. Plan: pinned. Lock: the rows it removes; the caller holds the lane.
CREATE OR REPLACE FUNCTION windlass.claim_drop_passes(p_jobs bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF EXISTS (SELECT FROM windlass.pass p WHERE p.gate >= 'budget:' AND p.gate < 'budget;') THEN
        DELETE FROM windlass.pass p WHERE p.job = ANY (p_jobs) AND p.gate LIKE 'budget:%';
    END IF;
END $$;

-- ==== Putting aside ====

-- Puts jobs of a claim aside, each in the waiting list of the bucket that has no tokens for it, or of its
-- task's limit [F1] [F3].
-- Callers: claim_tokens, claim_gated. May call: worker. Plan: pinned. Lock: none beyond the rows it writes;
-- the caller holds the lane. In the log their attempts end as `held`, in flush 0, which no worker uses, or -1
-- if the claim has a flush 0. A job that was let out of a list for tokens goes back to its place. A job that
-- waits for tokens holds no slot: an empty budget would otherwise use them all up.
CREATE OR REPLACE FUNCTION windlass.claim_aside(
    p_lane int, p_claim bigint, p_seqs bigint[], p_jobs bigint[], p_gates text[], p_needs int[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO windlass.outcome (segment, claim, lane, flush, kind, seqs, n, at)
    SELECT c.segment, p_claim, p_lane, -(SELECT count(*) FROM windlass.outcome o WHERE o.claim = p_claim),
           'held',
           (SELECT range_agg(int8range(s, s + 1)) FROM unnest(p_seqs) AS s), cardinality(p_seqs),
           windlass.now()
      FROM windlass.claim c WHERE c.lane = p_lane AND c.id = p_claim;
    PERFORM windlass.mark_gates_changed(p_gates);
    INSERT INTO windlass.held (id, turn, since, enqueued_at, queue, priority, attempt, deaths, gate, need,
                               task, payload, options)
    SELECT u.job, coalesce(CASE WHEN u.gate LIKE 'budget:%' THEN p.turn END, nextval('windlass.held_turn')),
           r.offered_at,
           coalesce(r.enqueued_at, r.offered_at), l.queue, l.priority, r.attempt, r.deaths, u.gate, u.need,
           r.task, r.payload, r.options
      FROM (SELECT * FROM unnest(p_seqs, p_jobs, p_gates, p_needs) WITH ORDINALITY AS x (seq, job, gate, need,
              i)
             ORDER BY x.i) AS u
     CROSS JOIN LATERAL (SELECT * FROM windlass.ready y WHERE y.lane = p_lane AND y.seq = u.seq LIMIT 1) AS r
      JOIN windlass.lane l ON l.id = p_lane
      LEFT JOIN windlass.pass p ON p.job = u.job AND p.gate || '' = u.gate
     ORDER BY u.i;
    DELETE FROM windlass.pass p USING unnest(p_jobs, p_gates) AS u (job, gate)
     WHERE p.job = u.job AND p.gate || '' = u.gate;
    PERFORM windlass.drop_passes(ARRAY(SELECT u.job FROM unnest(p_jobs, p_gates) AS u (job, gate)
                                        WHERE u.gate LIKE 'budget:%'),
                                 'slots', true);
END $$;
