-- Listings: pages of jobs, newest first, of gates and of causes of death. One job is looked up in
-- listing_jobs.sql.

-- ==== Jobs in lanes ====

-- The newest rows of lanes, as a listing looks at them: of those that task, tag and text fit, and of the last
-- one, the seqs, newest first, when each was offered (seconds since the epoch) and how many rows up to it
-- were looked at; `fits`: the last one does, too; `more`: there may be more behind it.
-- Callers: the store's listing. May call: worker, reader. Plan: generic, pinned, ordered. Lock: none.
-- p_lanes NULL: all lanes of the queue; else these, below the seqs p_before. About p_total rows in all, of
-- each lane at least p_least. Nothing costly is asked of a row here: its state is judged later, and only
-- where it fits. The payload is found by p_text, the longest piece that was asked for, before p_pattern: that
-- costs ten times as much.
CREATE OR REPLACE FUNCTION windlass.list_lanes(
    p_queue text, p_state text, p_task text, p_tag text, p_text text, p_pattern text, p_lanes int[],
    p_before bigint[], p_total int, p_least int)
RETURNS TABLE (lane int, seqs bigint[], times float8[], ranks bigint[], fits boolean, more boolean)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_each int;
BEGIN
    v_each := greatest(p_least, p_total / greatest(cardinality(p_lanes),
        CASE WHEN p_lanes IS NULL THEN (SELECT count(*)::int FROM windlass.lane l
                                         WHERE p_queue IS NULL OR l.queue = p_queue) END, 1));
    RETURN QUERY
    WITH wanted AS MATERIALIZED (
        SELECT s.lane, s.span * int8multirange(int8range(NULL, b.before)) AS span
          FROM windlass.list_spans(p_queue, p_state) AS s
          LEFT JOIN unnest(p_lanes, p_before) AS b (lane, before) ON b.lane = s.lane
         WHERE p_lanes IS NULL OR b.lane IS NOT NULL)
    SELECT w.lane, array_agg(r.seq ORDER BY r.rank),
           array_agg(date_part('epoch', r.offered_at) ORDER BY r.rank),
           array_agg(r.rank ORDER BY r.rank), bool_or(r.fit AND r.rank = r.n), max(r.n) >= v_each
      FROM wanted w
     CROSS JOIN LATERAL (
           SELECT x.*, row_number() OVER (ORDER BY x.seq DESC) AS rank, count(*) OVER () AS n
             FROM (SELECT x.seq, x.offered_at, x.fit FROM unnest(w.span) AS part (span)
                    CROSS JOIN LATERAL (
                          SELECT j.seq, j.offered_at,
                                 (p_task IS NULL OR j.task = p_task)
                                 AND (p_tag IS NULL OR coalesce((j.options -> 'tags')::jsonb ? p_tag, false))
                                 AND (p_text IS NULL OR strpos(j.payload::text, p_text) > 0)
                                 AND (p_pattern IS NULL OR j.payload::text ~ p_pattern) AS fit
                            FROM windlass.ready j
                           WHERE j.lane = w.lane AND j.seq >= coalesce(lower(part.span), 0)
                             AND j.seq < coalesce(upper(part.span), 9223372036854775807)
                           ORDER BY j.seq DESC LIMIT v_each) AS x
                    ORDER BY x.seq DESC LIMIT v_each) AS x) AS r
     WHERE r.fit OR r.rank = r.n
     GROUP BY w.lane;
END $$;

-- Where in the lanes of a queue (NULL: of all) jobs of a state can be; a state of NULL means any.
-- Callers: list_lanes. May call: worker, reader. Plan: generic, pinned. Lock: none.
-- Ready ones are beyond the cursor and in its holes, ended ones behind it or taken ahead of it, running ones
-- in the claims of workers that are not settled, above their floor (as in depth; OFFSET 0 is a fence
-- [rule 8]). Not all jobs there need be in that state: list_judged says.
CREATE OR REPLACE FUNCTION windlass.list_spans(p_queue text, p_state text)
RETURNS TABLE (lane int, span int8multirange)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    c windlass.claim;
BEGIN
    IF p_state IS NULL THEN
        RETURN QUERY
        SELECT l.id, int8multirange(int8range(NULL, NULL)) FROM windlass.lane l
         WHERE p_queue IS NULL OR l.queue = p_queue;
    ELSIF p_state IN ('running', 'splitting') THEN
        RETURN QUERY
        SELECT l.id, range_agg(h.open)
          FROM windlass.worker_life w
          JOIN windlass.worker_heartbeat b ON b.id = w.id
         CROSS JOIN LATERAL (SELECT x.lane, windlass.unfinished(x.id, x.seqs) AS open
                               FROM windlass.claim x
                              WHERE x.worker = w.id AND x.n > 0 AND x.worker <> 0 AND x.id >= b.floor
                             OFFSET 0) AS h
          JOIN windlass.lane l ON l.id = h.lane
         WHERE NOT w.settled AND (p_queue IS NULL OR l.queue = p_queue) GROUP BY l.id;
    ELSE
        FOR lane IN SELECT l.id FROM windlass.lane l WHERE p_queue IS NULL OR l.queue = p_queue LOOP
            c := windlass.cursor_of(lane);
            span := CASE WHEN p_state = 'ready'
                         THEN windlass.gather_seqs(coalesce(c.young, '{}') + coalesce(c.old, '{}'), c.spilled)
                              + int8multirange(int8range(c.hi + 1, NULL))
                         ELSE windlass.gather_seqs(c.ahead, c.ahead_spilled)
                              + int8multirange(int8range(NULL, c.hi + 1)) END;
            RETURN NEXT;
        END LOOP;
    END IF;
END $$;

-- Which of these rows of lanes are the present place of their job, and its state there; as the view job shows
-- them, those of one state where asked for (running and splitting go for one here).
-- Callers: places_of, the store's listing. May call: worker, reader. Plan: generic, pinned. Lock: none.
-- Claims and outcomes are read once for all rows that they cover, and a row itself only where its state is
-- the one. By enable_mergejoin = off the two meet in a hash of the rows, and nothing is sorted.
CREATE OR REPLACE FUNCTION windlass.list_judged(p_lanes int[], p_seqs bigint[], p_state text)
RETURNS TABLE (lane int, seq bigint, id bigint, task text, queue text, priority smallint, state text,
               attempt smallint, deaths smallint, payload json, options json, enqueued_at timestamptz,
               run_at timestamptz, claimed_at timestamptz, finished_at timestamptz, worker bigint,
               claim bigint, reason text)
LANGUAGE plpgsql STABLE SET enable_mergejoin = off AS $$
BEGIN
    RETURN QUERY
    WITH placed AS MATERIALIZED (
        SELECT w.lane, p.seq, p.claim, p.worker, p.claimed_at
          FROM (SELECT u.lane, array_agg(u.seq ORDER BY u.seq) AS seqs
                  FROM unnest(p_lanes, p_seqs) AS u (lane, seq) GROUP BY u.lane) AS w
         CROSS JOIN LATERAL windlass.list_claims(w.lane, w.seqs) AS p),
    ended AS MATERIALIZED (
        SELECT o.claim, o.kind, o.at, o.seqs
          FROM (SELECT DISTINCT p.claim FROM placed p WHERE p.claim IS NOT NULL) AS k
         CROSS JOIN LATERAL (SELECT x.claim, x.kind, x.at, x.seqs FROM windlass.outcome x
                              WHERE x.claim = k.claim OFFSET 0) AS o),
    judged AS MATERIALIZED (
        SELECT p.lane, p.seq, p.claim, p.worker, p.claimed_at, e.kind, e.at
          FROM placed p LEFT JOIN ended e ON e.claim = p.claim AND e.seqs @> p.seq
         WHERE (e.kind IS NULL OR e.kind IN ('succeeded', 'cancelled', 'expired'))
           AND (p_state IS NULL OR CASE WHEN e.kind IS NOT NULL
                                        THEN windlass.shown_as(e.kind, NULL, NULL) = p_state
                                        WHEN p.claim IS NULL THEN p_state = 'ready'
                                        ELSE p_state IN ('running', 'splitting') END))
    SELECT r.lane, r.seq, windlass.job_of(r.ready), (r.ready).task, l.queue, l.priority,
           windlass.shown_as(j.kind, j.claim, (r.ready).options), (r.ready).attempt, (r.ready).deaths,
           (r.ready).payload,
           (r.ready).options, windlass.enqueued_of(r.ready), NULL::timestamptz, j.claimed_at, j.at,
           nullif(j.worker, 0), j.claim, windlass.end_reason(j.kind, (r.ready).options)
      FROM judged j
      JOIN windlass.lane l ON l.id = j.lane
      JOIN windlass.queue q ON q.name = l.queue
     CROSS JOIN LATERAL (SELECT x.lane, x.seq, x AS ready FROM windlass.ready x
                          WHERE x.lane = j.lane AND x.seq = j.seq OFFSET 0) AS r
     WHERE j.kind IS NULL OR q.retention IS NULL
        OR j.at > windlass.now() - make_interval(secs => q.retention);
END $$;

-- place_claim for many positions of a lane, given in ascending order: which claim covers each, NULL where it
-- waits.
-- Callers: list_judged. May call: worker, reader. Plan: generic, pinned, ordered. Lock: none.
-- One probe for each claim, not for each position: the first claim with hi >= seq passed all from there up to
-- its hi. What it passed without taking it may be in a late claim; those are gone through once. Beyond the
-- cursor only what was taken ahead is in a claim at all. The cursor is read here, not by cursor_of, so that
-- it is of the same snapshot as the claims. A position whose claim was truncated away under that snapshot
-- [rule 7] is left out.
CREATE OR REPLACE FUNCTION windlass.list_claims(p_lane int, p_seqs bigint[])
RETURNS TABLE (seq bigint, claim bigint, worker bigint, claimed_at timestamptz)
LANGUAGE plpgsql STABLE ROWS 100 AS $$
DECLARE
    k       windlass.claim;
    c       record;
    i       int := 1;
    v_ahead int8multirange;
    v_rest  bigint[] := '{}';
    v_all   int8multirange;
BEGIN
    SELECT * INTO k FROM windlass.claim x WHERE x.lane = p_lane ORDER BY x.id DESC LIMIT 1;
    v_ahead := windlass.gather_seqs(k.ahead, k.ahead_spilled);
    WHILE p_seqs[i] <= k.hi LOOP
        SELECT x.id, x.worker, x.claimed_at, x.hi, x.seqs INTO c FROM windlass.claim x
         WHERE x.lane = p_lane AND x.hi >= p_seqs[i] ORDER BY x.hi, x.id LIMIT 1;
        EXIT WHEN NOT FOUND;
        WHILE p_seqs[i] <= c.hi LOOP
            IF c.seqs @> p_seqs[i] THEN
                seq := p_seqs[i];
                claim := c.id;
                worker := c.worker;
                claimed_at := c.claimed_at;
                RETURN NEXT;
            ELSE
                v_rest := v_rest || p_seqs[i];
            END IF;
            i := i + 1;
        END LOOP;
    END LOOP;
    claim := NULL;
    worker := NULL;
    claimed_at := NULL;
    FOREACH seq IN ARRAY p_seqs[i:] LOOP
        IF seq <= k.hi THEN
            CONTINUE;
        ELSIF seq <@ v_ahead THEN
            v_rest := v_rest || seq;
        ELSE
            RETURN NEXT;
        END IF;
    END LOOP;
    IF v_rest = '{}' THEN
        RETURN;
    END IF;
    v_all := (SELECT range_agg(int8range(s, s, '[]')) FROM unnest(v_rest) AS s);
    RETURN QUERY
    SELECT DISTINCT ON (r.seq) r.seq, l.id, l.worker, l.claimed_at
      FROM unnest(v_rest) AS r (seq)
      LEFT JOIN (SELECT s.seq, x.id, x.worker, x.claimed_at
                   FROM windlass.claim x
                  CROSS JOIN LATERAL (SELECT generate_series(lower(p.span), upper(p.span) - 1) AS seq
                                        FROM unnest(x.seqs * v_all) AS p (span)) AS s
                  WHERE x.lane = p_lane AND x.late AND x.seqs && v_all) AS l ON l.seq = r.seq
     ORDER BY r.seq, l.id DESC;
END $$;

-- ==== Jobs outside of lanes ====

-- The newest jobs that are not in a lane, as a listing looks at them: of each kind up to p_limit, below
-- (p_at, p_before); of these the ones that queue, task, tag, text and error fit and the last one, each with
-- how many up to it were looked at.
-- Callers: the store's listing. May call: worker, reader. Plan: generic, pinned, ordered. Lock: none.
-- The dead of one queue are written as a range, so that only the index of their queue can give them in order:
-- by an equality the one of all queues could, past any number of others [rule 8].
-- Kinds: 'scheduled', 'retrying', 'held', 'dead', and 'parent waiting', 'parent dead', ... by state.
CREATE OR REPLACE FUNCTION windlass.list_aside(
    p_queue text, p_task text, p_tag text, p_text text, p_pattern text, p_kinds text[], p_at timestamptz[],
    p_before bigint[], p_limit int, p_error text DEFAULT NULL)
RETURNS TABLE (kind text, id bigint, enqueued_at timestamptz, fit boolean, rank bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT looked.kind, looked.id, looked.enqueued_at, looked.fit, looked.rank FROM (
    SELECT s.kind, j.id, j.enqueued_at,
           (p_queue IS NULL OR j.queue = p_queue) AND (p_task IS NULL OR j.task = p_task)
           AND (p_tag IS NULL OR coalesce((j.options -> 'tags')::jsonb ? p_tag, false))
           AND (p_text IS NULL
                OR strpos(j.payload::text, p_text) > 0
                   AND (p_pattern IS NULL OR j.payload::text ~ p_pattern)
                OR s.kind IN ('dead', 'retrying', 'parent dead') AND EXISTS (
                       SELECT FROM (
                           SELECT e.last ->> 'type' || ': ' || (e.last ->> 'message') AS said
                             FROM (SELECT j.errors -> -1 AS last WHERE s.kind = 'dead') AS e
                           UNION ALL
                           SELECT e.type || ': ' || e.message
                             FROM (SELECT f.* FROM windlass.failure f
                                    WHERE s.kind <> 'dead' AND f.job = j.id ORDER BY f.at DESC LIMIT 1) AS e
                            WHERE e.attempt > 0) AS x
                        WHERE strpos(x.said, p_text) > 0 AND (p_pattern IS NULL OR x.said ~ p_pattern)))
           AND (p_error IS NULL
                OR p_error = CASE WHEN s.kind = 'dead' THEN j.error ELSE coalesce((
                       SELECT CASE WHEN f.attempt > 0 THEN f.type END FROM windlass.failure f
                        WHERE f.job = j.id ORDER BY f.at DESC LIMIT 1), '') END) AS fit,
           row_number() OVER (PARTITION BY s.kind ORDER BY j.enqueued_at DESC, j.id DESC) AS rank,
           count(*) OVER (PARTITION BY s.kind) AS n
      FROM unnest(p_kinds, p_at, p_before) AS s (kind, at, before)
     CROSS JOIN LATERAL (
           (SELECT d.id, d.enqueued_at, d.queue, d.task, d.options, d.payload, NULL::text AS error,
                   NULL::json AS errors
              FROM windlass.deferred d
             WHERE s.kind = 'scheduled' AND NOT d.retrying AND (d.enqueued_at, d.id + 0) < (s.at, s.before)
             ORDER BY d.enqueued_at DESC, d.id + 0 DESC LIMIT p_limit)
           UNION ALL
           (SELECT d.id, d.enqueued_at, d.queue, d.task, d.options, d.payload, NULL::text AS error,
                   NULL::json AS errors
              FROM windlass.deferred d
             WHERE s.kind = 'retrying' AND d.retrying AND (d.enqueued_at, d.id + 0) < (s.at, s.before)
             ORDER BY d.enqueued_at DESC, d.id + 0 DESC LIMIT p_limit)
           UNION ALL
           (SELECT h.id, h.enqueued_at, h.queue, h.task, h.options, h.payload, NULL, NULL
              FROM windlass.held h
             WHERE s.kind = 'held' AND (h.enqueued_at, h.id + 0) < (s.at, s.before)
             ORDER BY h.enqueued_at DESC, h.id + 0 DESC LIMIT p_limit)
           UNION ALL
           (SELECT d.id, d.enqueued_at, d.queue, d.task, d.options, d.payload,
                   CASE WHEN p_error IS NOT NULL THEN d.error END,
                   CASE WHEN p_text IS NOT NULL THEN d.errors END
              FROM windlass.dead d
             WHERE s.kind = 'dead' AND p_queue IS NULL AND (d.enqueued_at, d.id + 0) < (s.at, s.before)
             ORDER BY d.enqueued_at DESC, d.id + 0 DESC LIMIT p_limit)
           UNION ALL
           (SELECT d.id, d.enqueued_at, d.queue, d.task, d.options, d.payload,
                   CASE WHEN p_error IS NOT NULL THEN d.error END,
                   CASE WHEN p_text IS NOT NULL THEN d.errors END
              FROM windlass.dead d
             WHERE s.kind = 'dead' AND d.queue >= p_queue
               AND (d.queue, d.enqueued_at, d.id + 0) < (p_queue, s.at, s.before)
             ORDER BY d.queue DESC, d.enqueued_at DESC, d.id + 0 DESC LIMIT p_limit)
           UNION ALL
           (SELECT p.id, p.enqueued_at, p.queue, p.task, p.options, p.payload, NULL, NULL
              FROM windlass.parent p
             WHERE s.kind LIKE 'parent %' AND p.state = substr(s.kind, 8)
               AND (p.enqueued_at, p.id + 0) < (s.at, s.before)
             ORDER BY p.enqueued_at DESC, p.id + 0 DESC LIMIT p_limit)) AS j) AS looked
     WHERE looked.fit OR looked.rank = looked.n ORDER BY looked.kind, looked.rank;
END $$;

-- Jobs that are not in a lane, by their ids and as the view job shows them.
-- Callers: the store's listing. May call: worker, reader. Plan: generic, pinned. Lock: none.
CREATE OR REPLACE FUNCTION windlass.list_found(
    p_deferred bigint[], p_held bigint[], p_dead bigint[], p_parents bigint[])
RETURNS TABLE (id bigint, task text, queue text, priority smallint, state text, attempt smallint,
               deaths smallint, payload json, options json, enqueued_at timestamptz, run_at timestamptz,
               claimed_at timestamptz, finished_at timestamptz, worker bigint, claim bigint, reason text)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT d.id, d.task, d.queue, d.priority, CASE WHEN d.retrying THEN 'retrying' ELSE 'scheduled' END,
                                                        d.attempt, d.deaths,
           d.payload, d.options, d.enqueued_at, CASE WHEN d.run_at = 'infinity' THEN d.not_before
                                                     ELSE d.run_at END,
           NULL::timestamptz, NULL::timestamptz, NULL::bigint, NULL::bigint, windlass.deferred_reason(d)
      FROM windlass.deferred d WHERE d.id = ANY (p_deferred)
    UNION ALL
    SELECT h.id, h.task, h.queue, h.priority, 'ready', h.attempt, h.deaths, h.payload, h.options,
           h.enqueued_at, NULL, NULL, NULL, NULL, NULL, windlass.gate_reason(h.gate) COLLATE "default"
      FROM windlass.held h WHERE h.id = ANY (p_held)
    UNION ALL
    SELECT d.id, d.task, d.queue, d.priority, 'dead', d.attempt, d.deaths, d.payload, d.options,
           d.enqueued_at, NULL, NULL, d.died_at, NULL, NULL, d.reason
      FROM windlass.dead d WHERE d.id = ANY (p_dead)
    UNION ALL
    SELECT p.id, p.task, p.queue, p.priority, p.state, p.attempt, p.deaths, p.payload, p.options,
           p.enqueued_at, NULL, NULL, p.finished_at, NULL, NULL, p.reason
      FROM windlass.parent p JOIN windlass.queue q ON q.name = p.queue
     WHERE p.id = ANY (p_parents)
       AND (p.state IN ('waiting', 'dead') OR q.retention IS NULL
            OR p.finished_at > windlass.now() - make_interval(secs => q.retention));
END $$;

-- What jobs died of: the newest p_limit dead ones (of a queue), by task and type of their last failure; of a
-- task, or dead since a time (seconds since the epoch), those among them.
-- Callers: the store's causes. May call: worker, reader. Plan: generic, pinned, ordered. Lock: none.
-- `groups` is JSON, the largest first. The dead of one queue are written as a range, as in list_aside.
-- Failures are read in whole only of the latest of each group: tracebacks are most of a dead row.
CREATE OR REPLACE FUNCTION windlass.list_causes(
    p_queue text, p_task text, p_limit int, p_since float8, OUT groups json, OUT looked bigint,
    OUT more boolean)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    WITH newest AS MATERIALIZED (
        SELECT x.* FROM (
           (SELECT d.id, d.enqueued_at, d.died_at, d.task, d.error AS error, false AS parent
              FROM windlass.dead d WHERE p_queue IS NULL ORDER BY d.enqueued_at DESC, d.id + 0 DESC
             LIMIT p_limit + 1)
           UNION ALL
           (SELECT d.id, d.enqueued_at, d.died_at, d.task, d.error, false
              FROM windlass.dead d WHERE d.queue >= p_queue AND d.queue <= p_queue
             ORDER BY d.queue DESC, d.enqueued_at DESC, d.id + 0 DESC LIMIT p_limit + 1)
           UNION ALL
           (SELECT p.id, p.enqueued_at, p.finished_at, p.task, NULL, true
              FROM windlass.parent p WHERE p.state = 'dead' AND (p_queue IS NULL OR p.queue = p_queue)
             ORDER BY p.enqueued_at DESC, p.id + 0 DESC LIMIT p_limit + 1)) AS x
         ORDER BY x.enqueued_at DESC, x.id DESC LIMIT p_limit + 1),
    named AS (
        SELECT n.id, n.died_at, n.task, n.parent,
               CASE WHEN n.parent THEN coalesce((SELECT CASE WHEN f.attempt > 0 THEN f.type END
                                                   FROM windlass.failure f
                                                  WHERE f.job = n.id ORDER BY f.at DESC LIMIT 1), '')
                    ELSE n.error END AS error
          FROM (SELECT * FROM newest ORDER BY enqueued_at DESC, id DESC LIMIT p_limit) AS n
         WHERE (p_task IS NULL OR n.task = p_task)
           AND (p_since IS NULL OR n.died_at >= to_timestamp(p_since))),
    grouped AS (
        SELECT n.task, n.error, count(*) AS jobs, max(n.died_at) AS last_at,
               (array_agg(n.id ORDER BY n.died_at DESC, n.id DESC))[1] AS id
          FROM named n GROUP BY n.task, n.error)
    SELECT (SELECT coalesce(json_agg(json_build_object(
                       'task', g.task, 'error', g.error, 'jobs', g.jobs, 'last_at',
                       date_part('epoch', g.last_at), 'message', coalesce(l.message, ''))
                           ORDER BY g.jobs DESC, g.last_at DESC, g.task COLLATE "C",
                   g.error COLLATE "C"), '[]')
              FROM grouped g
              LEFT JOIN LATERAL (SELECT coalesce(windlass.failures_of(p.id) -> -1 ->> 'message',
                                                 p.reason) AS message
                                   FROM windlass.parent p WHERE p.id = g.id AND p.state = 'dead'
                                  UNION ALL
                                 SELECT coalesce(d.errors -> -1 ->> 'message', d.reason) FROM windlass.dead d
                                  WHERE d.id = g.id
                                  LIMIT 1) AS l ON true),
           least(count(*), p_limit), count(*) > p_limit
      INTO groups, looked, more FROM newest;
END $$;

-- ==== Gates and ordering keys ====

-- Gates that jobs wait at, those where the first has waited longest first; of very many waiting lists the
-- first 2,000 by name are looked at.
-- Callers: the store's gates. May call: worker, reader. Plan: pinned. Lock: none.
-- What is counted is counted up to 10,000.
CREATE OR REPLACE FUNCTION windlass.list_gates(p_limit int)
RETURNS TABLE (name text, passes bigint, waiting bigint, oldest float8)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    SELECT g.name, (SELECT count(*) FILTER (WHERE x.run IS NULL) + count(DISTINCT x.run)
                      FROM (SELECT p.run FROM windlass.pass p WHERE p.gate = g.name LIMIT 10000) AS x),
           (SELECT count(*) FROM (SELECT FROM windlass.held h WHERE h.gate = g.name LIMIT 10000) AS x),
           date_part('epoch', windlass.now() - g.since)
      FROM (SELECT n.name, h.since
              FROM unnest(windlass.next_waiting_lists('', NULL, '', 2000)) AS n (name)
             CROSS JOIN LATERAL (SELECT x.since FROM windlass.held x WHERE x.gate = n.name ORDER BY x.turn
                                  LIMIT 1) AS h
             ORDER BY h.since, n.name COLLATE "C" LIMIT p_limit) AS g
     ORDER BY g.since, g.name COLLATE "C";
END $$;

-- The ordering keys of a queue, by key, or only one of them, up to p_limit: how far each has come, and what
-- has not ended of it [F6].
-- Callers: the store's watermarks. May call: worker, reader. Plan: pinned. Lock: none.
-- What is counted is counted up to 10,000.
CREATE OR REPLACE FUNCTION windlass.list_watermarks(p_queue text, p_key text, p_limit int)
RETURNS TABLE (key text, "position" bigint, at timestamptz, waiting bigint, age float8)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    WITH keys AS (
        (SELECT m.key FROM windlass.order_mark m WHERE m.queue = p_queue AND (p_key IS NULL OR m.key = p_key)
          ORDER BY m.key LIMIT p_limit)
        UNION
        -- Keys whose first job waits for its turn have no mark yet.
        SELECT substr(n.gate, length(p_queue) + 8)
          FROM unnest(CASE WHEN p_key IS NULL THEN windlass.next_waiting_lists('order:' || p_queue || '/',
                  'order:' || p_queue || '0', '', p_limit)
                           ELSE ARRAY['order:' || p_queue || '/' || p_key] END) AS n (gate)
         WHERE p_key IS NULL OR EXISTS (SELECT FROM windlass.held h WHERE h.gate = n.gate OFFSET 0))
    SELECT k.key, greatest(coalesce(m.position, 0) - p.n, 0), coalesce(m.at, l.oldest, windlass.now()),
           l.n + p.n, date_part('epoch', windlass.now() - least(l.oldest, p.oldest))
      FROM (SELECT x.key COLLATE "C" AS key FROM keys x ORDER BY 1 LIMIT p_limit) AS k
      LEFT JOIN LATERAL (SELECT x.position, x.at FROM windlass.order_mark x
                          WHERE x.queue = p_queue AND x.key = k.key ORDER BY x.no DESC LIMIT 1) AS m
        ON true
     CROSS JOIN LATERAL (SELECT count(*) AS n, min(y.enqueued_at) AS oldest
                           FROM (SELECT h.enqueued_at FROM windlass.held h
                                  WHERE h.gate = 'order:' || p_queue || '/' || k.key
                                  ORDER BY h.turn LIMIT 9999) AS y) AS l
     CROSS JOIN LATERAL (SELECT count(*) AS n, min(x.enqueued_at) AS oldest
                           FROM windlass.pass x WHERE x.gate = 'order:' || p_queue || '/' || k.key) AS p
     ORDER BY k.key;
END $$;
