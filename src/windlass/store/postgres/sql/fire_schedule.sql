-- Fires a schedule for some times: compare-and-swap, enqueue and state in one transaction [K4]. `fired` is false, and nothing
-- happens, where its next_at is not p_expected any more, it is paused, or it is gone; p_expected NULL is an operator's "now",
-- which minds neither, nor overlaps. Callers: the store. READ COMMITTED only.
-- Lock: the leader row FOR SHARE, the schedule's row, the row of the unique key that its jobs have, if any; then, where a
-- running twin is to be cancelled, its parent's row and its lane as cancel takes them, and those of enqueue_one. Nobody who
-- holds a lane, a parent or a key waits for a schedule or the leader, so none of this meets crosswise; and who keeps the key
-- for long makes the fire fail, to be tried again, rather than hold up a lane or the next term. One whose row somebody holds is
-- passed over [S2].
CREATE OR REPLACE FUNCTION windlass.fire_schedule(
    p_term bigint, p_name text, p_expected float8, p_times float8[], p_next_at float8, p_skipped bigint, p_error text,
    OUT fired boolean, OUT jobs bigint[], OUT statuses text[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms' SET jit = off AS $$
DECLARE
    s         windlass.schedule;
    e         record;
    v_time    float8;
    v_last    float8 := p_times[cardinality(p_times)];
    v_running boolean;
    v_behind  bigint;
BEGIN
    PERFORM windlass.require_read_committed();
    fired := false;
    IF p_term IS NOT NULL THEN
        PERFORM windlass.check_term(p_term);
    END IF;
    IF p_expected IS NULL THEN
        SELECT * INTO s FROM windlass.schedule x WHERE x.name = p_name FOR NO KEY UPDATE;
    ELSE
        SELECT * INTO s FROM windlass.schedule x WHERE x.name = p_name FOR NO KEY UPDATE SKIP LOCKED;
    END IF;
    IF NOT FOUND OR p_expected IS NOT NULL AND (s.paused OR s.next_at IS DISTINCT FROM p_expected) THEN
        RETURN;
    END IF;
    fired := true;
    jobs := '{}';
    statuses := '{}';
    s.skipped := s.skipped + p_skipped;
    IF s.options ->> 'unique_key' IS NOT NULL THEN
        PERFORM FROM windlass.unique_key u WHERE u.key = s.options ->> 'unique_key' FOR UPDATE;
    END IF;
    -- As in finish: the snapshot that says whether its last job has ended must be younger than any rotation that moved it.
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    FOREACH v_time IN ARRAY p_times LOOP
        v_behind := NULL;
        IF p_expected IS NOT NULL AND s.overlap <> 'queue' THEN
            v_running := s.last_job IS NOT NULL AND windlass.is_unfinished(s.last_job);
            IF s.overlap = 'skip' AND (v_running OR v_time <> v_last) THEN
                s.skipped := s.skipped + 1;
                CONTINUE;
            ELSIF v_running THEN
                PERFORM windlass.cancel(s.last_job);
                -- One that runs stops with its worker's next beat: the new one comes after it, however it ends.
                v_behind := CASE WHEN windlass.is_unfinished(s.last_job) THEN s.last_job END;
            END IF;
        END IF;
        SELECT * INTO e FROM windlass.enqueue_one(
            s.task, s.payload::text, s.queue, s.priority, windlass.jitter_of(s, v_time), NULL,
            windlass.fire_options(s, v_time, v_behind), 'skip', NULL, p_automatic => true, p_judge => false);
        jobs := jobs || e.job;
        statuses := statuses || e.status;
        s.last_at := greatest(s.last_at, v_time);
        s.last_job := coalesce(nullif(e.job, 0), s.last_job);
    END LOOP;
    UPDATE windlass.schedule x
       SET next_at = CASE WHEN p_expected IS NULL THEN x.next_at ELSE p_next_at END, last_at = s.last_at,
           last_job = s.last_job, skipped = s.skipped,
           error = CASE WHEN p_expected IS NULL THEN x.error ELSE p_error END
     WHERE x.name = p_name;
END $$;
