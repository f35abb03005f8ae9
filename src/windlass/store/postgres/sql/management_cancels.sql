-- Cancelling jobs [O5]. How those that wait are ended is in management_waiting.sql, and how a parent is
-- cancelled in parents.sql.

-- Cancels a job [O5]: 'cancelled', 'requested' (it runs, and its worker will stop it; or it is a parent, and
-- its parts will be cancelled), 'finished' or 'not_found'.
-- Callers: users, the store, fire_schedule. May call: worker. Plan: free.
-- Lock: those of cancel_job or cancel_parent.
CREATE OR REPLACE FUNCTION windlass.cancel(job bigint) RETURNS text
LANGUAGE sql SECURITY DEFINER AS $$
    SELECT coalesce(windlass.cancel_parent(job), windlass.cancel_job(job))
$$;

-- Cancels a job that is no parent; the answers are those of cancel.
-- Callers: cancel, cancel_parent. May call: worker. Plan: the caller's. Lock: the lane of a waiting job,
-- until the transaction ends.
-- A job that ran when end_waiting looked may wait again by now, for its next attempt: then it is ended there.
-- Where the flush that puts it off cannot be seen yet, the request is left for cancel_put_off.
-- One that has become a parent meanwhile is left to promote, which sees the request: its row must not be
-- locked after a lane.
CREATE OR REPLACE FUNCTION windlass.cancel_job(p_job bigint) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    p record;
BEGIN
    LOOP
        IF windlass.end_waiting(p_job, 'cancelled') THEN
            RETURN 'cancelled';
        END IF;
        SELECT * INTO p FROM windlass.locate(p_job);
        IF FOUND AND p.kind IS NULL AND p.claim IS NOT NULL
           OR EXISTS (SELECT FROM windlass.parent x WHERE x.id = p_job AND x.state = 'waiting') THEN
            PERFORM windlass.request_cancel(p_job, p.worker);
            RETURN 'requested';
        ELSIF p.kind IS NOT NULL OR EXISTS (SELECT FROM windlass.dead d WHERE d.id = p_job)
           OR EXISTS (SELECT FROM windlass.parent x WHERE x.id = p_job) THEN
            RETURN 'finished';
        ELSIF NOT windlass.is_unfinished(p_job) THEN
            RETURN 'not_found';
        END IF;
    END LOOP;
END $$;

-- Requests the cancel of a job that runs, and wakes the host of the worker that holds it. A parent has none.
-- Callers: cancel_job, delete, request_cancels. May call: worker. Plan: the caller's. Lock: none.
-- Where the word gets lost, the worker's next heartbeat tells.
CREATE OR REPLACE FUNCTION windlass.request_cancel(p_job bigint, p_worker bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO windlass.cancel_request (job, at) VALUES (p_job, windlass.now()) ON CONFLICT DO NOTHING;
    IF FOUND AND p_worker IS NOT NULL THEN
        PERFORM windlass.wake('@' || p_worker);
    END IF;
END $$;

-- Requests the cancels of those of some jobs that run and are neither parent nor part, and returns them. Each
-- host is woken once: a notification leads to a heartbeat.
-- Callers: the store. May call: worker. Plan: pinned. Lock: ACCESS SHARE on claim, as in finish; the
-- requests, in the order of their jobs, so that no two of these deadlock.
CREATE OR REPLACE FUNCTION windlass.request_cancels(p_jobs bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    p      record;
    v_jobs bigint[] := '{}';
BEGIN
    PERFORM windlass.require_read_committed();
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    FOR p IN SELECT j.id, l.worker
               FROM unnest(p_jobs) AS j (id) CROSS JOIN LATERAL windlass.locate(j.id) AS l
              WHERE l.claim IS NOT NULL AND l.kind IS NULL
                AND NOT EXISTS (SELECT FROM windlass.part t WHERE t.job = j.id OFFSET 0)
                AND NOT EXISTS (SELECT FROM windlass.parent x WHERE x.id = j.id OFFSET 0)
              ORDER BY j.id LOOP
        PERFORM windlass.request_cancel(p.id, p.worker);
        v_jobs := v_jobs || p.id;
    END LOOP;
    RETURN v_jobs;
END $$;

-- One bounded step: cancels jobs whose cancel was requested while a flush put them off, neither of which saw
-- the other [O5]. They may wait for long, or for ever. Returns how many.
-- Callers: the store's promote. May call: worker. Plan: pinned. Lock: ACCESS SHARE on claim; those of
-- try_lock_waiting, without waiting: a job that somebody holds is left for the next step.
CREATE OR REPLACE FUNCTION windlass.cancel_put_off(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_job  bigint;
    v_done int := 0;
BEGIN
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    FOR v_job IN SELECT q.job FROM windlass.cancel_request q
                  WHERE EXISTS (SELECT FROM windlass.deferred d WHERE d.id = q.job OFFSET 0)
                     OR EXISTS (SELECT FROM windlass.held h WHERE h.id = q.job OFFSET 0)
                  ORDER BY q.job LIMIT p_limit LOOP
        IF windlass.try_lock_waiting(v_job) AND windlass.end_waiting(v_job, 'cancelled') THEN
            v_done := v_done + 1;
        END IF;
    END LOOP;
    IF v_done > 0 AND pg_sequence_last_value('windlass.awaited'::regclass) = 1 THEN
        PERFORM windlass.wake('!');
    END IF;
    RETURN v_done;
END $$;
