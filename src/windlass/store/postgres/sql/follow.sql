-- One bounded step along the edges of jobs that come after others, in turn [P12]: a job whose last edge is gone falls due,
-- one that can never run ends as its option says. `looked` counts edges; `around`: the walk has come to its end.
-- Callers: the store's promote. Lock: the row that says how far the walk has come, and the waiting jobs, by trying only;
-- ACCESS SHARE on claim, as in finish; then those of may_end for those it cancels, by trying only.
-- It looks at what is, not at what happens: no finish can slip past it. A job that is gone has succeeded, unless its end is
-- noted (see settle): nothing else is ever forgotten without a note. An edge whose job waits no more (taken back, or
-- offered by an operator) is dropped.
CREATE OR REPLACE FUNCTION windlass.follow(p_limit int, OUT looked int, OUT around boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    k        windlass.after_look;
    e        windlass.after_edge;
    d        windlass.deferred;
    v_state  text;
    v_policy text;
    v_cancel bigint[] := '{}';
    v_ended  boolean := false;
BEGIN
    PERFORM windlass.require_read_committed();
    looked := 0;
    around := true;
    SELECT * INTO k FROM windlass.after_look FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    FOR e IN SELECT * FROM windlass.after_edge x WHERE (x.job, x.on_job) > (k.job, k.on_job)
              ORDER BY x.job, x.on_job LIMIT p_limit LOOP
        looked := looked + 1;
        k.job := e.job;
        k.on_job := e.on_job;
        SELECT * INTO d FROM windlass.deferred x WHERE x.id = e.job AND x.run_at = 'infinity' FOR UPDATE SKIP LOCKED;
        IF d.id IS NULL THEN
            DELETE FROM windlass.after_edge x
             WHERE x.job = e.job AND x.on_job = e.on_job
               AND NOT EXISTS (SELECT FROM windlass.deferred y WHERE y.id = e.job AND y.run_at = 'infinity');
        END IF;
        CONTINUE WHEN d.id IS NULL OR d.id = ANY (v_cancel);
        -- One snapshot: a job that is deleted right now is there, or noted.
        v_state := (SELECT coalesce((SELECT s.state FROM windlass.standing_of(e.on_job) AS s), e.ended,
                                    (SELECT o.kind FROM windlass.ended_otherwise o WHERE o.job = e.on_job), 'succeeded'));
        CONTINUE WHEN v_state NOT IN ('succeeded', 'dead', 'cancelled', 'deleted', 'replaced');
        v_policy := CASE WHEN v_state = 'succeeded' THEN 'run' ELSE coalesce(d.options ->> 'otherwise', 'dead') END;
        -- One that has yet to replace another does so before it ends: see replace_step.
        CONTINUE WHEN d.replaces IS NOT NULL AND v_policy <> 'run';
        IF v_policy = 'cancel' THEN
            v_cancel := v_cancel || e.job;
            CONTINUE;
        END IF;
        DELETE FROM windlass.after_edge x WHERE x.job = e.job AND x.on_job = e.on_job;
        IF v_policy = 'dead' THEN
            PERFORM windlass.bury_deferred(d, format('job %s, which it comes after, is %s', e.on_job, v_state));
            v_ended := true;
        ELSIF NOT EXISTS (SELECT FROM windlass.after_edge x WHERE x.job = e.job) THEN
            -- A new xid: promote's watermark may have passed this moment already.
            UPDATE windlass.deferred x
               SET run_at = greatest(windlass.now(), x.not_before), xid = pg_current_xact_id() WHERE x.id = e.job;
        END IF;
    END LOOP;
    around := looked < p_limit;
    UPDATE windlass.after_look x SET job = CASE WHEN around THEN 0 ELSE k.job END,
           on_job = CASE WHEN around THEN 0 ELSE k.on_job END
     WHERE looked > 0 OR x.job > 0;
    -- Lanes are taken last, and not for long. Who cannot be cancelled now keeps its edges, and is looked at again.
    FOREACH e.job IN ARRAY v_cancel LOOP
        IF windlass.may_end(e.job) THEN
            DELETE FROM windlass.after_edge x WHERE x.job = e.job;
            PERFORM windlass.end_waiting(e.job, 'cancelled');
            v_ended := true;
        END IF;
    END LOOP;
    IF v_ended AND pg_sequence_last_value('windlass.awaited'::regclass) = 1 THEN
        PERFORM windlass.wake('!');
    END IF;
END $$;
