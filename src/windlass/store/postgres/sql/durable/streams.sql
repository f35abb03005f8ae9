-- Streams of jobs: what they emit while they run, and who reads it [W3].

-- ==== Writing ====

-- Appends events to the streams of jobs, one row for each, fenced by worker and claim [C5]; the arrays have
-- an element for each job. p_afters: the position of the last event that the same run wrote, NULL for none:
-- by that, what was sent before is known. p_keep: how many events of a stream are kept. Returns the position
-- of each one's last event; NULL: its claim is not the worker's, or it has ended. Callers: the store. May
-- call: worker. Plan: pinned, ordered. Lock: the life row FOR SHARE, see worker_fence: what ends an attempt
-- in order to offer its job again waits for it, so that the next claim's run finds all that this one wrote.
CREATE OR REPLACE FUNCTION windlass.emit(
    p_worker bigint, p_jobs bigint[], p_lanes int[], p_claims bigint[], p_seqs bigint[], p_attempts int[],
    p_afters bigint[], p_ns int[], p_events text[], p_keep int)
RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_now   timestamptz := windlass.now();
    v_found bigint[] := '{}';
    v_held  bigint;
    v_open  int8multirange;
    v_last  bigint;
    v_claim bigint;
    v_run   int;
    v_end   bigint;
    v_piece bigint := greatest(p_keep / 4, 1);
BEGIN
    PERFORM windlass.worker_fence(p_worker);
    FOR i IN 1 .. cardinality(p_jobs) LOOP
        IF v_held IS DISTINCT FROM p_claims[i] THEN
            v_held := p_claims[i];
            SELECT windlass.unfinished(c.id, c.seqs) INTO v_open FROM windlass.claim c
             WHERE c.lane = p_lanes[i] AND c.id = v_held AND c.worker = p_worker;
        END IF;
        IF v_open IS NULL OR NOT v_open @> p_seqs[i] THEN
            v_found := v_found || NULL::bigint;
            CONTINUE;
        END IF;
        SELECT s.position, s.claim, s.run INTO v_last, v_claim, v_run FROM windlass.stream s
         WHERE s.job = p_jobs[i] ORDER BY s.position DESC LIMIT 1;
        v_last := coalesce(v_last, 0);
        IF v_last > p_afters[i] OR (p_afters[i] IS NULL AND v_claim = p_claims[i]) THEN
            v_found := v_found || v_last;
            CONTINUE;
        END IF;
        -- A server that has lost what it acknowledged gives no position of it to a run that goes on.
        v_last := greatest(v_last, p_afters[i]);
        v_end := v_last + p_ns[i];
        -- Where the same was sent before and is still being written, this waits for it and writes nothing.
        INSERT INTO windlass.stream (job, position, claim, at, n, run, attempt, events)
        VALUES (p_jobs[i], v_end, p_claims[i], v_now, p_ns[i],
                coalesce(v_run, 0) + CASE WHEN v_claim = p_claims[i] THEN 0 ELSE 1 END,
                p_attempts[i], p_events[i]::json)
        ON CONFLICT DO NOTHING;
        v_found := v_found || v_end;
        IF v_end > p_keep AND v_end / v_piece > v_last / v_piece THEN
            DELETE FROM windlass.stream s WHERE s.job = p_jobs[i] AND s.position <= v_end - p_keep;
        END IF;
        IF EXISTS (SELECT FROM windlass.stream_watch w WHERE w.job = p_jobs[i] AND w.until > v_now) THEN
            PERFORM windlass.wake('~' || p_jobs[i]);
        END IF;
    END LOOP;
    RETURN v_found;
END $$;

-- ==== Reading ====

-- Notes for a minute that somebody reads the stream of a job, so that emit notifies.
-- Callers: the store's wait_stream, on each turn. May call: worker. Plan: indexed. Lock: its row.
CREATE OR REPLACE FUNCTION windlass.watch_stream(p_job bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_now timestamptz := windlass.now();
BEGIN
    IF NOT EXISTS (SELECT FROM windlass.stream_watch w
                    WHERE w.job = p_job AND w.until > v_now + interval '30 seconds') THEN
        INSERT INTO windlass.stream_watch AS w (job, until) VALUES (p_job, v_now + interval '1 minute')
        ON CONFLICT (job) DO UPDATE SET until = excluded.until;
    END IF;
END $$;

-- What a job emitted after a position, in order, or its state: in a row of its own, without a position, where
-- there is nothing, and with p_state in any case. No such row then: there is no such job.
-- Callers: the store's wait_stream. May call: worker, reader. Plan: pinned, ordered. Lock: none. STABLE, so
-- that both are of one moment: the state of a job that has ended comes with nothing or behind all that it
-- emitted.
CREATE OR REPLACE FUNCTION windlass.read_stream(p_job bigint, p_after bigint, p_limit int, p_state boolean)
RETURNS TABLE (state text, "position" bigint, n int, run int, attempt smallint, at timestamptz, events json)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT NULL::text, s.position, s.n, s.run, s.attempt, s.at, s.events FROM windlass.stream s
     WHERE s.job = p_job AND s.position > p_after ORDER BY s.position LIMIT p_limit;
    IF p_state OR NOT FOUND THEN
        RETURN QUERY
        SELECT f.state, NULL::bigint, NULL::int, NULL::int, NULL::smallint, NULL::timestamptz, NULL::json
          FROM windlass.standing_of(p_job) AS f;
    END IF;
END $$;

-- ==== Forgetting ====

-- One bounded step: removes the streams of jobs that the store no longer knows, at most p_limit rows, and
-- who no longer reads. Looks at up to p_limit jobs, and goes on there the next time. Returns how many rows.
-- Callers: expire, as for expire_steps. May call: worker. Plan: pinned, ordered. Lock: the row that says how
-- far it has come, without waiting.
CREATE OR REPLACE FUNCTION windlass.expire_streams(p_limit int) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    v_from bigint;
    v_job  bigint;
    v_seen int := 0;
    v_rows int;
    v_gone int := 0;
BEGIN
    SELECT k.job INTO v_from FROM windlass.stream_look k FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    DELETE FROM windlass.stream_watch w
     WHERE w.job = ANY (ARRAY(SELECT x.job FROM windlass.stream_watch x WHERE x.until < windlass.now()
                               LIMIT p_limit FOR UPDATE SKIP LOCKED));
    v_job := v_from;
    LOOP
        SELECT s.job INTO v_job FROM windlass.stream s WHERE s.job > v_job ORDER BY s.job LIMIT 1;
        EXIT WHEN NOT FOUND OR v_seen >= p_limit OR v_gone >= p_limit;
        v_seen := v_seen + 1;
        IF (SELECT x.state FROM windlass.standing_of(v_job) AS x) IS NULL THEN
            DELETE FROM windlass.stream s
             WHERE s.job = v_job
               AND s.position = ANY (ARRAY(SELECT x.position FROM windlass.stream x WHERE x.job = v_job
                                            ORDER BY x.position LIMIT p_limit - v_gone));
            GET DIAGNOSTICS v_rows = ROW_COUNT;
            v_gone := v_gone + v_rows;
            IF v_gone >= p_limit THEN
                v_job := v_job - 1;
            END IF;
        END IF;
    END LOOP;
    UPDATE windlass.stream_look k SET job = coalesce(v_job - 1, 0) WHERE v_from > 0 OR v_seen > 0;
    RETURN v_gone;
END $$;
