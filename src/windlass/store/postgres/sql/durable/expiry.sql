-- Jobs that have waited too long [E8]. A job's deadline is `expires_at` in its options, until somebody has
-- begun it: a claim judges it there. So that a job ends visibly where nobody claims, too, `expiry` says when
-- to look at it.

-- ==== Deadlines ====

-- The options of a new job with its deadline, where it has `expires`; it waits from p_since on.
-- core/expiry.py says the same.
-- Callers: changed, enqueue_many, enqueue_mixed, enqueue_one, import_rows. May call: worker.
-- Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.with_deadline(p_options text, p_since timestamptz) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    IF p_options LIKE '%"expires"%' AND p_options::json ->> 'expires' IS NOT NULL THEN
        RETURN (p_options::jsonb || jsonb_build_object('expires_at', date_part('epoch', p_since)
            + (p_options::json ->> 'expires')::float8))::text;
    END IF;
    RETURN p_options;
END $$;

-- The options of a job that expires no more: somebody has begun it, or an operator wants it to run.
-- Callers: finish_others, put_off, hand_back, retry, retry_many. May call: worker. Plan: the caller's.
-- Lock: none.
CREATE OR REPLACE FUNCTION windlass.without_deadline(p_options json) RETURNS json
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_options::text LIKE '%"expires_at"%' THEN (p_options::jsonb - 'expires_at')::json
                ELSE p_options END
$$;

-- Whether a job with these options still expires, and is to be looked at.
-- Callers: changed, end_aside, end_expired. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.may_expire(p_options json) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(p_options::text LIKE '%"expires_at"%' AND p_options ->> 'expires_at' IS NOT NULL, false)
$$;

-- Remembers when to look at new jobs that expire.
-- Callers: enqueue_many, enqueue_mixed, enqueue_one, import_rows. May call: worker. Plan: the caller's. Lock:
-- none: it only adds rows.
CREATE OR REPLACE FUNCTION windlass.note_deadlines(p_jobs bigint[], p_options text[]) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO windlass.expiry (job, at)
    SELECT u.job, to_timestamp((u.o::json ->> 'expires_at')::float8)
      FROM unnest(p_jobs, p_options) AS u (job, o) WHERE u.o LIKE '%"expires_at"%'
    ON CONFLICT DO NOTHING
$$;

-- Why a job ended that did not succeed, where its outcome tells.
-- Callers: list_judged, the view job, the store's look-up. May call: worker, reader. Plan: the caller's.
-- Lock: none. expired_reason in windlass.core.expiry says the same. In PL/pgSQL, since it is called for each
-- job and is too long to be inlined: a SQL function would be planned for each.
CREATE OR REPLACE FUNCTION windlass.end_reason(p_kind text, p_options json) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    s numeric;
BEGIN
    IF p_kind = 'cancelled' THEN
        RETURN p_options ->> 'given_up';  -- see follow
    ELSIF p_kind IS DISTINCT FROM 'expired' THEN
        RETURN NULL;
    END IF;
    s := (p_options ->> 'expires')::numeric;
    RETURN 'expired after '
        || CASE WHEN s >= 86400 AND s % 86400 = 0 THEN trim_scale(s / 86400) || ' d'
                WHEN s >= 3600 AND s % 3600 = 0 THEN trim_scale(s / 3600) || ' h'
                WHEN s >= 60 AND s % 60 = 0 THEN trim_scale(s / 60) || ' m'
                ELSE trim_scale(s) || ' s' END || ': it waited longer than that';
END $$;

-- ==== Ending ====

-- Ends those jobs of a claim that have waited too long, as cancelled, before anybody is given them. Returns
-- the places of the others.
-- Callers: claim, after claim_take. May call: worker. Plan: pinned. Lock: the caller holds the lane; those of
-- settle, as for any job that ends waiting.
CREATE OR REPLACE FUNCTION windlass.claim_expired(
    p_lane int, p_claim bigint, p_stays int[], p_seqs bigint[], p_jobs bigint[], p_options text[])
RETURNS int[]
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_now    float8 := date_part('epoch', windlass.now());
    v_ended  int[];
    v_jobs   bigint[];
    v_seqs   bigint[];
BEGIN
    SELECT array_agg(u.place), array_agg(p_jobs[u.place]), array_agg(p_seqs[u.place])
      INTO v_ended, v_jobs, v_seqs
      FROM unnest(p_stays) AS u (place)
     WHERE p_options[u.place] LIKE '%"expires_at"%'
       AND (p_options[u.place]::json ->> 'expires_at')::float8 <= v_now;
    IF v_ended IS NULL THEN
        RETURN p_stays;
    END IF;
    INSERT INTO windlass.outcome (segment, claim, lane, flush, kind, seqs, n, at)
    SELECT c.segment, p_claim, p_lane, -(SELECT count(*) FROM windlass.outcome o WHERE o.claim = p_claim),
           'expired', (SELECT range_agg(int8range(s, s + 1)) FROM unnest(v_seqs) AS s), cardinality(v_seqs),
           windlass.now()
      FROM windlass.claim c WHERE c.lane = p_lane AND c.id = p_claim;
    PERFORM windlass.settle(v_jobs, NULL, NULL, 'cancelled');
    IF pg_sequence_last_value('windlass.awaited'::regclass) = 1 THEN
        PERFORM windlass.wake('!');
    END IF;
    RETURN ARRAY(SELECT s FROM unnest(p_stays) AS s WHERE s <> ALL (v_ended));
END $$;

-- One bounded step: ends jobs that have waited too long, wherever they wait. Returns how many it looked at,
-- most of which have mostly begun in time.
-- Callers: the store's promote. May call: worker. Plan: pinned, ordered. Lock: rows of expiry, without
-- waiting; ACCESS SHARE on claim, as in finish; the lanes of those jobs, without waiting [S2]; then those of
-- end_aside.
-- A job whose lane or row is locked is looked at again after five seconds, one that has been claimed after
-- five minutes: it may come back without having begun. The others need no more looks.
CREATE OR REPLACE FUNCTION windlass.end_expired(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '1s' AS $$
DECLARE
    v_now   timestamptz := windlass.now();
    v_jobs  bigint[];
    v_ended bigint[] := '{}';
    v_taken bigint[];
    g       record;
BEGIN
    PERFORM windlass.require_read_committed();
    v_jobs := ARRAY(SELECT e.job FROM windlass.expiry e WHERE e.at <= v_now ORDER BY e.at, e.job + 0
                     LIMIT p_limit FOR UPDATE SKIP LOCKED);
    IF v_jobs = '{}' THEN
        RETURN 0;
    END IF;
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    FOR g IN SELECT (l.ready).lane AS lane, array_agg((l.ready).seq) AS seqs
               FROM unnest(v_jobs) AS j (id) CROSS JOIN LATERAL windlass.locate(j.id) AS l
              WHERE l.claim IS NULL AND windlass.may_expire((l.ready).options)
              GROUP BY 1 ORDER BY 1 LOOP
        IF pg_try_advisory_xact_lock(windlass.lock_space(), g.lane) THEN
            v_ended := v_ended || windlass.end_in_lane(g.lane, g.seqs, 'expired');
        END IF;
    END LOOP;
    v_taken := ARRAY(
        SELECT w.id
          FROM (SELECT d.id, d.queue, d.priority, d.options FROM unnest(v_jobs) AS j (id)
                 CROSS JOIN LATERAL (SELECT x.* FROM windlass.deferred x WHERE x.id = j.id OFFSET 0) AS d
                 UNION ALL
                SELECT h.id, h.queue, h.priority, h.options FROM unnest(v_jobs) AS j (id)
                 CROSS JOIN LATERAL (SELECT x.* FROM windlass.held x WHERE x.id = j.id OFFSET 0) AS h) AS w
         WHERE windlass.may_expire(w.options)
           AND coalesce(pg_try_advisory_xact_lock(windlass.lock_space(),
                                                  windlass.try_lane(w.queue, w.priority,
                                                                    windlass.abilities_of(w.options))),
                        false));
    IF v_taken <> '{}' THEN
        v_ended := v_ended || windlass.end_aside(v_taken, 'expired');
    END IF;
    DELETE FROM windlass.expiry e WHERE e.job = ANY (v_ended);
    FOR g IN SELECT j.id, s.claimed FROM unnest(v_jobs) AS j (id)
               LEFT JOIN LATERAL (
                  SELECT false AS claimed FROM windlass.deferred d
                   WHERE d.id = j.id AND windlass.may_expire(d.options)
                   UNION ALL
                  SELECT false FROM windlass.held h WHERE h.id = j.id AND windlass.may_expire(h.options)
                   UNION ALL
                  SELECT l.claim IS NOT NULL FROM windlass.locate(j.id) AS l
                   WHERE l.kind IS NULL AND windlass.may_expire((l.ready).options)
                   LIMIT 1) AS s ON true
              WHERE j.id <> ALL (v_ended) LOOP
        IF g.claimed IS NULL THEN
            DELETE FROM windlass.expiry e WHERE e.job = g.id;
        ELSE
            UPDATE windlass.expiry e
               SET at = v_now + CASE WHEN g.claimed THEN interval '5 minutes' ELSE interval '5 seconds' END
             WHERE e.job = g.id;
        END IF;
    END LOOP;
    IF v_ended <> '{}' AND pg_sequence_last_value('windlass.awaited'::regclass) = 1 THEN
        PERFORM windlass.wake('!');
    END IF;
    RETURN cardinality(v_jobs);
END $$;
