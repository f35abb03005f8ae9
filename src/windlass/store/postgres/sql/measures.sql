-- What processes measured, how it is rolled up into charts, timelines, and how the server is doing.

-- ==== Reports ====

-- Accepts the report of one process, all of it or nothing, and returns the time. One that was sent
-- before, by its number, changes nothing.
-- Callers: the store. May call: worker. Plan: free. Lock: the row of its source, which nobody else takes;
-- none that a job takes. p_samples, p_events, p_vitals: NULL where there are none; vitals that are not
-- reported again stay. An event does not lie in the future, so that those with lower numbers are the
-- older ones.
CREATE OR REPLACE FUNCTION windlass.report(
    p_source bigint, p_number bigint, p_samples json, p_events json, p_vitals json)
RETURNS float8
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_now timestamptz := windlass.now();
BEGIN
    INSERT INTO windlass.reporter AS t (source, number, at, vitals, vitals_at)
    VALUES (p_source, p_number, v_now, p_vitals, CASE WHEN p_vitals IS NOT NULL THEN v_now END)
    ON CONFLICT (source) DO UPDATE
       SET number = excluded.number, at = excluded.at, vitals = coalesce(excluded.vitals, t.vitals),
           vitals_at = coalesce(excluded.vitals_at, t.vitals_at)
     WHERE t.number < excluded.number;
    IF NOT FOUND THEN
        RETURN date_part('epoch', v_now);
    END IF;
    IF p_samples IS NOT NULL THEN
        INSERT INTO windlass.report (source, number, at, samples)
        VALUES (p_source, p_number, v_now, p_samples);
    END IF;
    IF p_events IS NOT NULL THEN
        INSERT INTO windlass.event (at, {event})
        SELECT least(at, date_part('epoch', v_now)), {event}
          FROM json_populate_recordset(
                   json_populate_record(NULL::windlass.event, '{unsaid of an event}'), p_events);
    END IF;
    RETURN date_part('epoch', v_now);
END $$;

-- ==== Rollups ====

-- Starts one step of the rollup: the oldest reports with ids above p_after, up to p_limit, and how many ids
-- were given out before it looked. `busy`: another one is at it, and nothing is left to do.
-- Callers: the store's rollup, which folds them and ends with rollup_put in the same transaction, so that
-- what was taken is counted once or, where that is rolled back, by the next one [M1]. May call: worker.
-- Plan: pinned, ordered.
-- Lock: advisory, (oid of the report table, 0), without waiting, until the transaction ends.
CREATE OR REPLACE FUNCTION windlass.rollup_take(
    p_limit int, p_after bigint, OUT busy boolean, OUT given bigint, OUT ids bigint[], OUT samples text[])
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    -- What is read after the lock must be younger than the lock.
    PERFORM windlass.require_read_committed();
    busy := NOT pg_try_advisory_xact_lock(('windlass.report'::regclass::oid::bigint - 2147483648)::int, 0);
    IF NOT busy THEN
        given := coalesce(pg_sequence_last_value('windlass.report_id_seq'::regclass), 0);
        SELECT coalesce(array_agg(n.id), '{}'), coalesce(array_agg(n.samples::text), '{}') INTO ids, samples
          FROM (SELECT * FROM windlass.report x WHERE x.id > p_after ORDER BY x.id LIMIT p_limit) AS n;
    END IF;
END $$;

-- The rows of charts at some places, as far as they are there.
-- Callers: the store's rollup, after rollup_take. May call: worker. Plan: pinned. Lock: none; the caller
-- holds that of rollup_take. OFFSET 0 is a fence [rule 8]: one probe for each place, however many rows there
-- are.
CREATE OR REPLACE FUNCTION windlass.rollup_rows(
    p_spans int[], p_ats bigint[], p_queues text[], p_tasks text[])
RETURNS SETOF windlass.measured
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    RETURN QUERY
    SELECT m.*
      FROM unnest(p_spans, p_ats, p_queues, p_tasks) AS p (span, at, queue, task)
     CROSS JOIN LATERAL (SELECT * FROM windlass.measured x
                          WHERE x.span = p.span AND x.queue = p.queue AND x.task = p.task AND x.at = p.at
                         OFFSET 0) AS m;
END $$;

-- Writes the rows of charts that reports were folded into, and removes those reports.
-- Callers: the store's rollup, after rollup_take and rollup_rows. May call: worker. Plan: indexed. Lock: the
-- rows it writes; the caller holds that of rollup_take.
CREATE OR REPLACE FUNCTION windlass.rollup_put(
    p_spans int[], p_ats bigint[], p_queues text[], p_tasks text[], p_samples bytea[], p_reports bigint[])
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO windlass.measured (span, at, queue, task, sample)
    SELECT * FROM unnest(p_spans, p_ats, p_queues, p_tasks, p_samples)
    ON CONFLICT (span, queue, task, at) DO UPDATE SET sample = excluded.sample;
    DELETE FROM windlass.report WHERE id = ANY (p_reports);
END $$;

-- Removes what has outlived its time, up to p_limit of each: rows of charts, by their span; events older than
-- p_event_kept seconds or beyond the last p_events; and reporters that have been silent for p_reporter_kept
-- seconds and are no living worker. `more`: of something it took as much as it may.
-- Callers: the store's rollup. May call: worker. Plan: pinned. Lock: the rows it removes; the caller holds
-- that of rollup_take.
-- Their numbers say how many events there are; what an epoch has passed over, a billion and more, does not
-- count [S3].
CREATE OR REPLACE FUNCTION windlass.rollup_expire(
    p_limit int, p_spans int[], p_kept float8[], p_event_kept float8, p_events bigint, p_reporter_kept float8,
    OUT removed bigint, OUT more boolean)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_now    float8 := windlass.unix_time();
    v_events bigint;
    v_silent bigint;
    v_left   bigint := p_events;
    v_last   bigint := (SELECT max(e.id) FROM windlass.event e);
    v_below  bigint;  -- no event up to this one stays
    v_before bigint;
    v_first  bigint;
BEGIN
    LOOP
        v_below := v_last - v_left;
        SELECT max(e.id) INTO v_before FROM windlass.event e WHERE e.id <= v_below;
        SELECT min(e.id) INTO v_first FROM windlass.event e WHERE e.id > v_below;
        EXIT WHEN v_left = 0 OR v_before IS NULL OR v_first - v_before < 1 << 30;
        v_left := v_left - (v_last - v_first + 1);
        v_last := v_before;
    END LOOP;
    WITH old AS MATERIALIZED (
        SELECT x.span, x.at, x.queue, x.task
          FROM unnest(p_spans, p_kept) AS k (span, kept)
         CROSS JOIN LATERAL (SELECT * FROM windlass.measured m
                              WHERE m.span = k.span AND m.at < floor(v_now - k.kept)::bigint
                              ORDER BY m.at LIMIT p_limit) AS x
         LIMIT p_limit)
    DELETE FROM windlass.measured m USING old o
     WHERE m.span = o.span AND m.queue = o.queue AND m.task = o.task AND m.at = o.at;
    GET DIAGNOSTICS removed = ROW_COUNT;
    DELETE FROM windlass.event e
     WHERE e.id IN (SELECT x.id FROM (SELECT y.id, y.at FROM windlass.event y ORDER BY y.id
                                       LIMIT p_limit) AS x
                     WHERE x.at <= v_now - p_event_kept OR x.id <= v_below);
    GET DIAGNOSTICS v_events = ROW_COUNT;
    DELETE FROM windlass.reporter t
     WHERE t.source IN (SELECT x.source FROM windlass.reporter x
                         WHERE x.at <= to_timestamp(v_now - p_reporter_kept)
                           AND NOT EXISTS (SELECT FROM windlass.worker_life l
                                            WHERE l.id = x.source AND l.alive)
                         LIMIT p_limit FOR UPDATE OF x SKIP LOCKED);
    GET DIAGNOSTICS v_silent = ROW_COUNT;
    more := greatest(removed, v_events, v_silent) >= p_limit;
    removed := removed + v_events;
END $$;

-- ==== Statements that the store sends ====

-- :measured
-- The rows of span $1 of queue $2 and task $3 from $4 until before $5, by time.
-- Callers: Measures.measured. Lock: none.
SELECT sample, at, queue, task FROM windlass.measured
 WHERE span = $1 AND queue = $2 AND task = $3 AND at >= $4 AND at < $5 ORDER BY at

-- :totals
-- What was counted since the store was made, of every queue and task.
-- Callers: Measures.totals. Lock: none.
SELECT sample, at, queue, task FROM windlass.measured WHERE span = $1 ORDER BY queue, task

-- :uncounted_claims
-- How many claims of the lane that has most of them are not counted yet, up to $1.
-- Callers: diagnosis. Lock: none.
SELECT coalesce(max(c.n), 0) AS claims
  FROM windlass.lane l LEFT JOIN windlass.counted_lane k ON k.lane = l.id
 CROSS JOIN LATERAL (SELECT count(*) AS n
                       FROM (SELECT FROM windlass.claim x
                              WHERE x.lane = l.id AND x.id > coalesce(k.through, 0) LIMIT $1) AS y) AS c

-- :events
-- The latest events below id $1, up to $2.
-- Callers: Measures.events. Lock: none.
SELECT id, at, {event} FROM windlass.event
 WHERE id < $1 ORDER BY id DESC LIMIT $2

-- :events_of_job
-- The latest events of job $3, in queue $4 if given, below id $1, up to $2.
-- Callers: Measures.events. Lock: none.
SELECT id, at, {event} FROM windlass.event
 WHERE job = $3 AND id < $1 AND ($4::text IS NULL OR queue = $4) ORDER BY job DESC, id DESC LIMIT $2

-- :events_of_queue
-- The latest events of queue $3 below id $1, up to $2.
-- Callers: Measures.events. Lock: none.
SELECT id, at, {event} FROM windlass.event
 WHERE queue = $3 AND id < $1 ORDER BY queue DESC, id DESC LIMIT $2

-- :health
-- How the server and the store are doing, by what anybody may read; of snapshots as far as this role may see:
-- where it does not see all and sees none, that is NULL.
-- Callers: the store's health. Lock: none.
-- Reports are counted up to $1, those with ids above $2; `lowest` is the first of them or, where there is
-- none, the one that comes next, by what was given out.
SELECT current_setting('server_version') AS version,
       current_setting('max_connections')::int AS most_connections,
       (SELECT sum(d.numbackends)::int FROM pg_stat_database d) AS connections, c.cache_hits, c.cache_misses,
       coalesce((SELECT max(date_part('epoch', clock_timestamp() - a.xact_start)) FROM pg_stat_activity a
                  WHERE a.backend_xmin IS NOT NULL AND a.pid <> pg_backend_pid()),
                CASE WHEN pg_has_role('pg_read_all_stats', 'USAGE') THEN 0 END) AS oldest_snapshot,
       r.blocked, date_part('epoch', r.blocked_since) AS blocked_since,
       (SELECT date_part('epoch', l.until) FROM windlass.leader l
         WHERE isfinite(l.until)) AS coordinator_until,
       n.reports, coalesce(n.lowest, n.given + 1) AS lowest
  FROM windlass.rotation r
 CROSS JOIN (SELECT d.blks_hit AS cache_hits, d.blks_read AS cache_misses FROM pg_stat_database d
              WHERE d.datname = current_database()) AS c
 CROSS JOIN (SELECT g.given, count(x.id) AS reports, min(x.id) AS lowest
               FROM (SELECT coalesce(pg_sequence_last_value('windlass.report_id_seq'::regclass),
                                     0) AS given) AS g
               LEFT JOIN LATERAL (SELECT y.id FROM windlass.report y WHERE y.id > $2 ORDER BY y.id
                                   LIMIT $1) AS x ON true
              GROUP BY g.given) AS n

-- :server
-- The server's version and its clock.
-- Callers: diagnosis. Lock: none.
SELECT current_setting('server_version_num')::int AS number, current_setting('server_version') AS version,
       date_part('epoch', clock_timestamp()) AS now

-- :tables
-- Every table of the schema, with its size, indexes included, and what the statistics say of its rows; of a
-- partition the log and the segment it belongs to.
-- Callers: the store's health. Lock: ACCESS SHARE on each for a moment.
SELECT coalesce(p.relname, c.relname)::text AS name,
       CASE WHEN p.oid IS NOT NULL THEN substring(c.relname FROM '[0-9]+$')::int END AS segment,
       pg_total_relation_size(c.oid) AS bytes, pg_stat_get_live_tuples(c.oid) AS rows,
       pg_stat_get_dead_tuples(c.oid) AS dead
  FROM pg_class c
  LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
  LEFT JOIN pg_class p ON p.oid = i.inhparent
 WHERE c.relkind = 'r' AND c.relnamespace = (SELECT m.relnamespace FROM pg_class m
                                              WHERE m.oid = 'windlass.meta'::regclass)
 ORDER BY 1, 2

-- :segments
-- Every segment of the logs.
-- Callers: the store's health. Lock: none.
SELECT s.no, date_part('epoch', s.opened_at) AS opened_at,
       CASE WHEN s.no = pg_sequence_last_value('windlass.segment_current'::regclass) THEN 'open'
            WHEN s.empty THEN 'empty' ELSE 'closed' END AS state
  FROM windlass.segment s ORDER BY s.no

-- :wal
-- Bytes of write-ahead log since the server was made; NULL on a replica.
-- Callers: the store's health. Lock: none.
SELECT CASE WHEN NOT pg_is_in_recovery() THEN (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint END AS bytes

-- :compiled
-- The functions whose plans are pinned and that the server would nevertheless compile at every call, where it
-- can.
-- Callers: diagnosis. Lock: none.
SELECT p.proname::text AS name FROM pg_proc p
 WHERE p.pronamespace = (SELECT m.relnamespace FROM pg_class m WHERE m.oid = 'windlass.meta'::regclass)
   AND EXISTS (SELECT FROM unnest(p.proconfig) AS c WHERE c LIKE E'enable\\_%=off')
   AND 'jit=off' <> ALL (p.proconfig)
   AND pg_jit_available() AND current_setting('jit')::boolean
 ORDER BY p.proname

-- :unserved
-- Queues with jobs that are ready, or due, and no worker that is alive to run them. Of those that are due
-- 10,000 are counted, the ones due longest.
-- Callers: diagnosis. Lock: none.
SELECT d.queue, d.ready + coalesce(due.n, 0) AS waiting
  FROM windlass.depth() AS d
  LEFT JOIN (SELECT x.queue, count(*) AS n
               FROM (SELECT y.queue FROM windlass.deferred y WHERE y.run_at <= windlass.now()
                      ORDER BY y.run_at LIMIT 10000) AS x
              GROUP BY x.queue) AS due ON due.queue = d.queue
 WHERE d.ready + coalesce(due.n, 0) > 0
   -- These are meant to wait.
   AND NOT EXISTS (SELECT FROM windlass.queue q WHERE q.name = d.queue AND q.paused)
   AND NOT EXISTS (SELECT FROM windlass.worker w JOIN windlass.worker_life l USING (id)
                    WHERE l.alive AND d.queue = ANY (w.queues))
 ORDER BY d.queue COLLATE "C"

-- :blocked_rotation
-- What keeps the rotation from reclaiming a segment, and for how many seconds.
-- Callers: diagnosis. Lock: none.
SELECT r.victim, r.blocked, date_part('epoch', windlass.now() - r.blocked_since) AS seconds
  FROM windlass.rotation r WHERE r.blocked IS NOT NULL

-- :hold_ups
-- Transactions that have been open for more than $1 seconds and hold what others want: locks of lanes, gates,
-- queues or budgets, and rows of tables that chores write; as far as this role may see who they are [S2].
-- Callers: diagnosis, health, rotation. Lock: none.
-- Not those of the logs, which hold up nobody but the rotation (see blocked_rotation), nor what a handler's
-- own transaction keeps of its worker, nor tables that are only added to. The first key of an advisory lock
-- is the oid of a table: see lock_space.
SELECT CASE WHEN a.pid IS NULL THEN format('prepared transaction %L of %s', p.gid, p.owner)
            ELSE format('process %s of %s (%s)', a.pid, a.usename,
                        coalesce(nullif(a.application_name, ''), a.backend_type)) END AS who,
       date_part('epoch', clock_timestamp() - coalesce(a.xact_start, p.prepared)) AS seconds, h.what
  FROM (SELECT l.pid, l.virtualtransaction AS transaction,
               string_agg(DISTINCT CASE WHEN l.locktype = 'relation' THEN 'rows of ' || c.relname
                                        WHEN c.relname = 'lane'
                                        THEN 'a lane of queue ' || coalesce(n.queue, '?')
                                        WHEN c.relname = 'lane_id' THEN 'a lane that it declares'
                                        WHEN c.relname = 'held' THEN 'a gate'
                                        ELSE 'a lock of ' || c.relname END, ', ') AS what
          FROM pg_locks l
          JOIN pg_class c ON c.oid = CASE WHEN l.locktype = 'advisory' AND l.objsubid = 2
                                          THEN (l.classid::bigint + 2147483648) % 4294967296
                                          ELSE l.relation::bigint END
          LEFT JOIN windlass.lane n ON l.locktype = 'advisory' AND n.id = l.objid::bigint
         WHERE l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
           AND l.locktype IN ('advisory', 'relation') AND l.granted
           AND l.pid IS DISTINCT FROM pg_backend_pid()
           AND l.mode <> 'AccessShareLock'
           AND c.relnamespace = (SELECT m.relnamespace FROM pg_class m
                                  WHERE m.oid = 'windlass.meta'::regclass)
           AND (l.locktype = 'advisory' OR c.relkind = 'r' AND NOT c.relispartition)
           AND c.relname NOT IN ('worker_life', 'checkpoint', 'changed_gate', 'ended_otherwise', 'part_event',
                                 'cancel_request')
         GROUP BY l.pid, l.virtualtransaction) AS h
  LEFT JOIN pg_stat_activity a ON a.pid = h.pid
  LEFT JOIN pg_locks x ON h.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = h.transaction
   AND x.locktype = 'transactionid'
  LEFT JOIN pg_prepared_xacts p ON p.transaction = x.transactionid
 WHERE coalesce(a.xact_start, p.prepared) < clock_timestamp() - make_interval(secs => $1)
 ORDER BY seconds DESC

-- :connections
-- How many connections the server has, and how many it gives to those who are no superusers.
-- Callers: diagnosis. Lock: none.
SELECT (SELECT sum(d.numbackends)::int FROM pg_stat_database d) AS used,
       current_setting('max_connections')::int
       - current_setting('superuser_reserved_connections')::int AS most

-- :old_snapshots
-- Who has held the server's xmin back for more than $1 seconds, as far as this role may see.
-- Callers: diagnosis. Lock: none.
SELECT format('process %s of %s (%s)', a.pid, coalesce(a.usename::text, 'the server'),
              coalesce(nullif(a.application_name, ''), a.backend_type)) AS who,
       date_part('epoch', clock_timestamp() - a.xact_start) AS seconds
  FROM pg_stat_activity a
 WHERE (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
   AND a.xact_start < clock_timestamp() - make_interval(secs => $1)
UNION ALL
SELECT format('prepared transaction %L of %s', p.gid, p.owner),
       date_part('epoch', clock_timestamp() - p.prepared)
  FROM pg_prepared_xacts p
 WHERE p.prepared < clock_timestamp() - make_interval(secs => $1)
 ORDER BY seconds DESC
