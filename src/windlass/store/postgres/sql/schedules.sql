-- Schedules: declared, changed, fired [K4].

-- ==== Settings ====

-- Declares a schedule (p_from 'code'), makes one at run time ('new'), or changes one ('change') [K4]. A new
-- one is due at p_next_at; one that exists takes the new definition, and p_next_at and p_error only where
-- cron or tz have changed, or where it is never due: an expression that this server refused may be valid by
-- now. One that is live stays as it is when code declares it, until both say the same. No row: one of this
-- name is there already, or is not. p_definition: columns of windlass.schedule; payload and options are text,
-- to be kept as they were written; p_whole: all of it in one text, as the code's word is kept. Callers: the
-- store. May call: worker. Plan: free. Lock: the row.
CREATE OR REPLACE FUNCTION windlass.define_schedule(
    p_definition jsonb, p_payload text, p_options text, p_whole text, p_next_at float8, p_error text,
    p_from text)
RETURNS SETOF windlass.schedule
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    d       windlass.schedule := jsonb_populate_record(NULL::windlass.schedule, p_definition);
    v_code  boolean := p_from = 'code';
    v_word  text := CASE WHEN v_code THEN p_whole END;
    v_now   float8 := CASE WHEN v_code THEN windlass.unix_time() END;
BEGIN
    PERFORM FROM windlass.schedule x WHERE x.name = d.name FOR NO KEY UPDATE;
    IF NOT FOUND AND p_from = 'change' THEN
        RETURN;
    END IF;
    RETURN QUERY
    INSERT INTO windlass.schedule AS x (name, cron, tz, task, payload, queue, priority, options, missed,
                                        overlap, grace, jitter, next_at, error, live, declared, declared_at)
    VALUES (d.name, d.cron, d.tz, d.task, p_payload::json, d.queue, d.priority, p_options::json, d.missed,
            d.overlap, d.grace, d.jitter, p_next_at, p_error, NOT v_code, v_word, v_now)
    ON CONFLICT (name) DO UPDATE
       SET cron = d.cron, tz = d.tz, task = d.task, payload = p_payload::json, queue = d.queue,
           priority = d.priority, options = p_options::json, missed = d.missed, overlap = d.overlap,
           grace = d.grace, jitter = d.jitter,
           next_at = CASE WHEN (x.cron, x.tz) = (d.cron, d.tz) AND x.next_at IS NOT NULL THEN x.next_at
                          ELSE p_next_at END,
           error = CASE WHEN (x.cron, x.tz) = (d.cron, d.tz) AND x.next_at IS NOT NULL THEN x.error
                        ELSE p_error END,
           live = NOT v_code AND x.declared IS DISTINCT FROM p_whole,
           declared = coalesce(v_word, x.declared), declared_at = coalesce(v_now, x.declared_at)
     WHERE p_from = 'change' OR v_code AND NOT x.live
    RETURNING x.*;
    IF NOT FOUND AND v_code THEN
        RETURN QUERY
        UPDATE windlass.schedule x
           SET live = (x.cron, x.tz, x.task, x.payload::text, x.queue, x.priority, x.options::text, x.missed,
                       x.overlap, x.grace, x.jitter)
                      IS DISTINCT FROM (d.cron, d.tz, d.task, p_payload, d.queue, d.priority, p_options,
                                        d.missed, d.overlap, d.grace, d.jitter),
               declared = p_whole, declared_at = v_now
         WHERE x.name = d.name
        RETURNING x.*;
    END IF;
END $$;

-- Pauses or resumes a schedule, or says when it is due; what is NULL stays [K4]. No row: there is none of
-- this name.
-- Callers: users, the store. May call: worker. Plan: free. Lock: the row.
CREATE OR REPLACE FUNCTION windlass.set_schedule(
    p_name text, p_paused boolean DEFAULT NULL, p_next_at float8 DEFAULT NULL)
RETURNS SETOF windlass.schedule
LANGUAGE sql SECURITY DEFINER AS $$
    UPDATE windlass.schedule s SET paused = coalesce(p_paused, s.paused),
           next_at = coalesce(p_next_at, s.next_at)
     WHERE s.name = p_name RETURNING s.*
$$;

-- Removes a schedule; its jobs stay. False where there is none.
-- Callers: users, the store. May call: worker. Plan: free. Lock: the row.
CREATE OR REPLACE FUNCTION windlass.drop_schedule(p_name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    DELETE FROM windlass.schedule s WHERE s.name = p_name;
    RETURN FOUND;
END $$;

-- ==== Firing ====

-- Schedules that are due and not paused, longest due first, and those whose last fire lies in the future, up
-- to p_limit.
-- Callers: the store's due. May call: worker, reader. Plan: pinned. Lock: none.
-- Each kind from its index [rule 8]: what is not due is not looked at, however many there are.
CREATE OR REPLACE FUNCTION windlass.due_schedules(p_limit int, p_now float8) RETURNS SETOF windlass.schedule
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT *
      FROM ((SELECT * FROM windlass.schedule x WHERE NOT x.paused AND x.next_at <= p_now
              ORDER BY x.next_at, x.name COLLATE "C" LIMIT p_limit)
             UNION ALL
            (SELECT * FROM windlass.schedule x
              WHERE NOT x.paused AND x.last_at > p_now + 1 AND x.next_at > p_now
              ORDER BY x.last_at LIMIT p_limit)) AS y
     ORDER BY y.next_at, y.name COLLATE "C" LIMIT p_limit;
END $$;

-- Fires a schedule for some times: compare-and-swap, enqueue and state in one transaction [K4]. `fired` is
-- false, and nothing happens, where its next_at is not p_expected any more, it is paused, or it is gone;
-- p_expected NULL is an operator's "trigger now", which ignores all of these, and overlaps.
-- Callers: the store. May call: worker. Plan: free. READ COMMITTED only.
-- Lock: the leader row FOR SHARE, the schedule's row, the row of the unique key that its jobs have, if any;
-- then, where a running twin is to be cancelled, its parent's row and its lane as cancel takes them, and
-- those of enqueue_one. Nobody who holds a lane, a parent or a key waits for a schedule or the leader, so
-- none of this deadlocks; and if the key is locked for long, the fire fails and is tried again, instead of
-- holding up a lane or the next term. A schedule whose row is locked is skipped [S2].
CREATE OR REPLACE FUNCTION windlass.fire_schedule(
    p_term bigint, p_name text, p_expected float8, p_times float8[], p_next_at float8, p_skipped bigint,
    p_error text, OUT fired boolean, OUT jobs bigint[], OUT statuses text[])
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '200ms' AS $$
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
    -- As in finish: the snapshot that says whether its last job has ended must be younger than any rotation
    -- that moved it.
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
                -- One that runs stops with its worker's next heartbeat: the new one comes after it, however
                -- it ends.
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

-- The options of the job that a schedule makes for a time, with headers that say so [K4]. p_behind: the job
-- of the same schedule that it comes after, however that ends.
-- Callers: fire_schedule. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.fire_options(
    s windlass.schedule, p_time float8, p_behind bigint) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT (coalesce(s.options::jsonb, '{}') || jsonb_build_object('headers',
                coalesce(s.options::jsonb -> 'headers', '{}') || jsonb_build_object(
                    'windlass-schedule', s.name,
                    'windlass-scheduled-for',
                    to_char(to_timestamp(p_time) AT TIME ZONE 'UTC',
                            CASE WHEN p_time = floor(p_time) THEN 'YYYY-MM-DD"T"HH24:MI:SS"+00:00"'
                                 ELSE 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"' END)))
            || CASE WHEN p_behind IS NULL THEN '{}'
                    ELSE jsonb_build_object('after', jsonb_build_array(p_behind), 'otherwise',
                                            'run') END)::text
$$;

-- How many seconds the job that a schedule makes for a time is delayed: a fraction of its jitter, derived
-- from name and time [K4].
-- Callers: fire_schedule. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.jitter_of(s windlass.schedule, p_time float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN s.jitter > 0
                THEN s.jitter * (hashtextextended(s.name || '/' || p_time, 0) & 4294967295) / 4294967296.0 END
$$;

-- ==== Statements that the store sends ====

-- :schedules
-- Every schedule, by name.
-- Callers: Schedules. Lock: none.
SELECT * FROM windlass.schedule ORDER BY name COLLATE "C"

-- :due_schedules
-- Schedules that are due, up to $1, with the current time and when the next one is due; one row without a
-- name if there are none. Callers: Schedules. Lock: none.
SELECT s.*, t.now,
       (SELECT x.next_at FROM windlass.schedule x WHERE NOT x.paused AND x.next_at > t.now
         ORDER BY x.next_at LIMIT 1) AS next
  FROM windlass.unix_time() AS t (now) LEFT JOIN LATERAL windlass.due_schedules($1, t.now) AS s ON true
 ORDER BY s.next_at, s.name COLLATE "C"
