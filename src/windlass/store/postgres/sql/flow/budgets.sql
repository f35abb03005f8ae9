-- Budgets: their settings, breakers, and the governors of queues. The buckets are in budgets_buckets.sql. The
-- decisions are those of bucket, breaker and governor in windlass.core.

-- ==== Settings ====

-- Adds a budget that code declares; a rate is required. One that exists is left as it is [F1].
-- Callers: users, the store. May call: worker. Plan: free. Lock: that of budget_lock, where it is new.
CREATE OR REPLACE FUNCTION windlass.declare_budget(p_name text, p_settings jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF EXISTS (SELECT FROM windlass.budget x WHERE x.name = p_name) THEN
        RETURN false;
    END IF;
    PERFORM windlass.check_settings('budget', p_name, p_settings);
    RETURN windlass.budget_add(p_name, p_settings);
END $$;

-- Changes some settings of a budget while it is in use, or creates it; a new one needs a rate [F1].
-- Callers: users, the store. May call: worker. Plan: free. Lock: those of budget_change. An unknown or
-- invalid setting is refused, and nothing is changed.
CREATE OR REPLACE FUNCTION windlass.set_budget(p_name text, p_changes jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM windlass.check_settings('budget', p_name, p_changes), windlass.budget_lock(p_name);
    IF EXISTS (SELECT FROM windlass.budget x WHERE x.name = p_name) THEN
        PERFORM windlass.budget_change(p_name, p_changes);
    ELSE
        PERFORM windlass.budget_add(p_name, p_changes);
    END IF;
END $$;

-- Adds a budget, full, unless there is one of this name; true if it did [F1].
-- Callers: declare_budget, set_budget, set_rate. May call: worker. Plan: the caller's. Lock: that of
-- budget_lock. The row of its bucket for all is made with it, and stays.
CREATE OR REPLACE FUNCTION windlass.budget_add(p_name text, p_settings jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_rate  float8 := (p_settings -> 'rate')::float8;
    v_burst float8 := coalesce((p_settings -> 'burst')::float8, greatest(1, ceil(v_rate)));
BEGIN
    IF v_rate IS NULL THEN
        RAISE EXCEPTION 'there is no budget %', quote_literal(p_name) USING ERRCODE = 'WL005',
            HINT = 'Give it a rate to make it.';
    END IF;
    PERFORM windlass.budget_lock(p_name);
    INSERT INTO windlass.budget (name, rate, burst) VALUES (p_name, v_rate, v_burst) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM windlass.bucket k WHERE k.budget = p_name;
    INSERT INTO windlass.bucket (budget, key, tokens, at) VALUES (p_name, '', v_burst, windlass.unix_time());
    PERFORM windlass.budget_write(p_name, p_settings);
    RETURN true;
END $$;

-- Changes a budget's settings: tokens accrued so far were accrued at the old rate, and a new rate or burst
-- forgives a debt, but for what claims may have booked: tokens accrue from when that is there [F1].
-- Callers: set_budget, set_rate. May call: worker. Plan: the caller's.
-- Lock: that of budget_lock, held by the caller; then the rows of its buckets by key, then its own: whoever
-- holds a bucket's row sees either all of the old or all of the new. The same as Bucket.changed in
-- windlass.core.
CREATE OR REPLACE FUNCTION windlass.budget_change(
    p_name text, p_changes jsonb, p_now float8 DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    b       windlass.budget;
    v_now   float8;
    v_rate  float8;
    v_burst float8;
BEGIN
    PERFORM FROM windlass.bucket k WHERE k.budget = p_name ORDER BY k.key FOR UPDATE;
    SELECT * INTO b FROM windlass.budget x WHERE x.name = p_name;
    v_now := windlass.unix_time(p_now);
    v_rate := (jsonb_populate_record(b, p_changes)).rate;
    v_burst := (jsonb_populate_record(b, p_changes)).burst;
    -- While blocks are out, a smaller burst counts with them, and nothing is accrued.
    UPDATE windlass.bucket k SET (tokens, at, paused_until, leased_until, drains, used, used_until) =
           (SELECT least(CASE WHEN v_now < r.leased_until THEN r.tokens - greatest(0, b.burst - v_burst)
                              WHEN p_changes ?| '{rate,burst}' THEN greatest(0, r.tokens)
                              ELSE r.tokens END, v_burst),
                   CASE WHEN v_now < r.leased_until THEN greatest(r.at, r.leased_until)
                        WHEN p_changes ?| '{rate,burst}' AND r.tokens < 0 AND b.rate > 0
                        THEN r.at + least(:bucket.AHEAD, -r.tokens / b.rate) ELSE r.at END,
                   -- What was taken before is not given back: by a lower rate, too little counts as grown.
                   CASE WHEN v_rate < b.rate THEN greatest(r.paused_until, v_now) ELSE r.paused_until END,
                   r.leased_until, r.drains,
                   -- Another period, or another zone, counts anew.
                   CASE WHEN (n.cap_per, n.cap_zone) = (b.cap_per, b.cap_zone) THEN r.used ELSE 0 END,
                   CASE WHEN (n.cap_per, n.cap_zone) = (b.cap_per, b.cap_zone) THEN r.used_until ELSE 0 END
              FROM windlass.bucket_at(b, k, v_now) AS r, jsonb_populate_record(b, p_changes) AS n)
     WHERE k.budget = p_name;
    PERFORM windlass.budget_write(p_name, p_changes);
    -- Jobs that needed more than the old burst may fit now.
    PERFORM windlass.mark_gates_changed(windlass.next_waiting_lists('over:' || p_name || '/',
                                                    'over:' || p_name || '0', '', 100), true);
END $$;

-- Writes the named settings of a budget; the caller has checked them.
-- Callers: budget_add, budget_change. May call: worker. Plan: the caller's. Lock: the budget's row.
CREATE OR REPLACE FUNCTION windlass.budget_write(p_name text, p_changes jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_changes <> '{}' THEN
        EXECUTE (SELECT 'UPDATE windlass.budget SET ' || string_agg(format('%1$I = ($2).%1$I', k), ', ')
                        || ' WHERE name = $1'
                   FROM jsonb_object_keys(p_changes) AS k)
          USING p_name, jsonb_populate_record(NULL::windlass.budget, p_changes);
        IF p_changes ?| '{cap,burst}' AND EXISTS (SELECT FROM windlass.budget x
                                                   WHERE x.name = p_name AND x.cap < x.burst) THEN
            RAISE EXCEPTION 'the cap of budget % cannot be below its burst', p_name USING ERRCODE = 'WL005',
                HINT = 'Raise the cap, or lower the burst.';
        END IF;
        -- A zone that this server does not know is refused here, and not by the claims.
        PERFORM windlass.period_end(x, windlass.unix_time()) FROM windlass.budget x WHERE x.name = p_name;
    END IF;
END $$;

-- Makes those who change a budget wait for each other.
-- Callers: budget_add, set_budget, set_rate, drop_budget. May call: worker. Plan: the caller's.
-- Lock: advisory, (oid of the budget table, hash of the name), until the transaction ends; before the rows of
-- its buckets and then its own, in the order in which a taker locks them.
CREATE OR REPLACE FUNCTION windlass.budget_lock(p_budget text) RETURNS void
LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(('windlass.budget'::regclass::oid::bigint - 2147483648)::int,
                                 hashtext(p_budget))
$$;

-- Removes a budget and its buckets; false where there is none [F1].
-- Callers: users, the store. May call: worker. Plan: free. Lock: that of budget_lock, then the rows, those of
-- buckets first.
CREATE OR REPLACE FUNCTION windlass.drop_budget(p_name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF position(':' IN p_name) > 0 THEN
        RETURN false;  -- that of a queue's governor
    END IF;
    PERFORM windlass.budget_lock(p_name);
    PERFORM FROM windlass.bucket k WHERE k.budget = p_name ORDER BY k.key FOR UPDATE;
    DELETE FROM windlass.bucket k WHERE k.budget = p_name;
    DELETE FROM windlass.budget b WHERE b.name = p_name;
    RETURN FOUND;
END $$;

-- ==== Breakers ====

-- Reports to the breaker of a budget how runs went that used it, and returns its state then [F7].
-- Callers: users, the store. May call: worker. Plan: free. Lock: the budget's row, where something changes:
-- successes of a closed breaker without failures cost one read. The same as Breaker.after_calls in
-- windlass.core.
CREATE OR REPLACE FUNCTION windlass.report_calls(
    p_budget text, p_succeeded bigint, p_failed bigint, p_now float8 DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    b          windlass.budget;
    v_now      float8;
    v_failures bigint;
BEGIN
    SELECT * INTO b FROM windlass.budget x WHERE x.name = p_budget;
    IF NOT FOUND OR b.breaker = 0 THEN
        RETURN 'closed';
    ELSIF p_failed > 0 OR p_succeeded > 0 AND (b.openings > 0 OR b.failures > 0) THEN
        SELECT * INTO b FROM windlass.budget x WHERE x.name = p_budget FOR NO KEY UPDATE;
    END IF;
    v_now := windlass.unix_time(p_now);
    -- Open: a late report of runs from before.
    IF p_succeeded + p_failed > 0 AND windlass.breaker_state(b, v_now) <> 'open' AND b.breaker > 0 THEN
        IF p_failed = 0 THEN
            UPDATE windlass.budget x SET failures = 0, openings = 0, until = 0, probing = false
             WHERE x.name = p_budget AND (x.failures > 0 OR x.openings > 0);
            RETURN 'closed';
        END IF;
        v_failures := CASE WHEN p_succeeded > 0 THEN p_failed ELSE b.failures + p_failed END;
        IF b.probing OR v_failures >= b.breaker THEN
            b.openings := least(b.openings, 1000000) + 1;
            b.probing := false;
            b.until := v_now + windlass.breaker_length(b.breaker_pause, b.openings);
        END IF;
        UPDATE windlass.budget x SET failures = v_failures, openings = b.openings, probing = b.probing,
               until = b.until
         WHERE x.name = p_budget;
    END IF;
    RETURN windlass.breaker_state(b, v_now);
END $$;

-- The state of a budget's breaker at a moment: closed, open or half-open [F7]. The same as Breaker.state in
-- windlass.core.
-- Callers: bucket_ahead, bucket_take, bucket_tokens, claim_tokens_at_once, gate_wait, lease_tokens,
-- report_calls, the store's readings. May call: worker, reader. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.breaker_state(b windlass.budget, p_now float8) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN b.openings = 0 OR b.breaker = 0 THEN 'closed'
                WHEN b.probing OR windlass.breaker_left(b, p_now) = 0 THEN 'half-open' ELSE 'open' END
$$;

-- Seconds until the breaker of a budget lets it grant tokens again; 0 where it does now [F7]. A pause that
-- ends later than any pause can was written before the clock was set back, and is over. The same as
-- Breaker.left in windlass.core.
-- Callers: breaker_state, bucket_take, bucket_tokens, bucket_wait, lease_tokens, the store's readings. May
-- call: worker, reader. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.breaker_left(b windlass.budget, p_now float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN b.openings > 0 AND b.breaker > 0 AND b.until > p_now
                     AND b.until - p_now <= windlass.breaker_length(b.breaker_pause, b.openings) + :clock.SLIP
                THEN b.until - p_now ELSE 0 END
$$;

-- For how many seconds a breaker stays open, or waits for its probe: doubled each time, up to 16 times the
-- pause [F7]. The same as in Breaker in windlass.core.
-- Callers: breaker_left, bucket_take, lease_tokens, report_calls. May call: worker, reader.
-- Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.breaker_length(p_pause float8, p_openings int) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_pause * (1 << least(greatest(p_openings - 1, 0), :breaker.MAX_DOUBLINGS))
$$;

-- ==== Governors ====

-- Adds up how runs went, by queue, for the governor's next decision [F2]. Queues without a governor are
-- ignored. p_runs: {queue: {"succeeded": ..., "failed": ..., "throttled": ..., "times": {bucket: runs}}}.
-- Callers: the store. May call: worker. Plan: free. Lock: the governor's rows of those queues, in the order
-- of their names, waited for 1 s at most: only an operator's open set_queue holds one for longer, and no
-- worker waits for that [S2].
CREATE OR REPLACE FUNCTION windlass.count_runs(p_runs jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '1s' AS $$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT q.name, u.value AS runs FROM jsonb_each(p_runs) AS u
               JOIN windlass.queue q ON q.name = u.key
              WHERE q.governor ORDER BY q.name COLLATE "C" LOOP
        INSERT INTO windlass.governor AS g (queue, succeeded, failed, throttled, times)
        VALUES (r.name, coalesce((r.runs ->> 'succeeded')::bigint, 0),
                coalesce((r.runs ->> 'failed')::bigint, 0), coalesce((r.runs ->> 'throttled')::bigint, 0),
                coalesce(r.runs -> 'times', '{}'))
        ON CONFLICT (queue) DO UPDATE
           SET succeeded = g.succeeded + excluded.succeeded, failed = g.failed + excluded.failed,
               throttled = g.throttled + excluded.throttled,
               times = (SELECT coalesce(jsonb_object_agg(t.key, t.runs), '{}')
                          FROM (SELECT x.key, sum(x.value::bigint) AS runs
                                  FROM (SELECT * FROM jsonb_each_text(g.times)
                                         UNION ALL
                                        SELECT * FROM jsonb_each_text(excluded.times)) AS x
                                         GROUP BY x.key) AS t);
    END LOOP;
END $$;

-- The queues that have a governor, each with its governor's stored state and with what was reported since the
-- last call; the reports are cleared [F2] [K3].
-- Callers: the store. May call: worker. Plan: free. Lock: the leader row FOR SHARE, then the governor's rows,
-- without waiting.
CREATE OR REPLACE FUNCTION windlass.governed(p_term bigint)
RETURNS TABLE (queue text, rate_min float8, rate_max float8, succeeded bigint, failed bigint,
               throttled bigint, times jsonb, waiting bigint, state jsonb)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    q windlass.queue;
BEGIN
    PERFORM windlass.check_term(p_term);
    FOR q IN SELECT * FROM windlass.queue x WHERE x.governor ORDER BY x.name COLLATE "C" LOOP
        INSERT INTO windlass.governor AS g (queue)
        SELECT q.name WHERE NOT EXISTS (SELECT FROM windlass.governor x WHERE x.queue = q.name)
            ON CONFLICT DO NOTHING;
        SELECT q.name, q.rate_min, q.rate_max, g.succeeded, g.failed, g.throttled, g.times, g.state
          INTO queue, rate_min, rate_max, succeeded, failed, throttled, times, state
          FROM windlass.governor g WHERE g.queue = q.name FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        UPDATE windlass.governor g SET succeeded = 0, failed = 0, throttled = 0, times = '{}'
         WHERE g.queue = q.name AND (g.succeeded, g.failed, g.throttled, g.times) <> (0, 0, 0, '{}');
        waiting := (SELECT l.depth FROM windlass.queue_load(q.name, 10000, false) AS l);
        RETURN NEXT;
    END LOOP;
END $$;

-- Stores what the governor of a queue decided. From then on claims in the whole cluster together stay below
-- its rate [F2] [K3].
-- Callers: the store. May call: worker. Plan: free. Lock: the leader row FOR SHARE, the queue's row, without
-- waiting, the governor's row, then those of budget_change. Where the governor was switched off meanwhile, or
-- is just being switched off, nothing is stored.
CREATE OR REPLACE FUNCTION windlass.govern(p_term bigint, p_queue text, p_state jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '1s' AS $$
BEGIN
    PERFORM windlass.check_term(p_term);
    PERFORM FROM windlass.queue q WHERE q.name = p_queue AND q.governor FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
        INSERT INTO windlass.governor AS g (queue, state) VALUES (p_queue, p_state)
        ON CONFLICT (queue) DO UPDATE SET state = excluded.state;
        PERFORM windlass.set_rate(p_queue, (p_state ->> 'rate')::float8);
    END IF;
END $$;

-- Sets the rate at which a governed queue gives out jobs, as its budget `queue:<queue>`, with a burst of a
-- fifth of a second; NULL: no limit [F2].
-- Callers: govern, set_queue, with the queue's row locked. May call: worker. Plan: the caller's.
-- Lock: those of budget_change.
CREATE OR REPLACE FUNCTION windlass.set_rate(p_queue text, p_rate float8) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_name text := 'queue:' || p_queue;
    v_rate jsonb := jsonb_build_object('rate', p_rate, 'burst', greatest(1, p_rate / 5));
BEGIN
    IF p_rate IS NULL THEN
        PERFORM windlass.budget_lock(v_name);
        DELETE FROM windlass.bucket k WHERE k.budget = v_name;
        DELETE FROM windlass.budget x WHERE x.name = v_name;
    ELSIF NOT windlass.budget_add(v_name, v_rate) THEN
        PERFORM windlass.budget_change(v_name, v_rate);
    END IF;
END $$;

-- After the clock was set back: buckets with a later time continue from now [fault 31], also those that
-- nobody asks. Up to p_limit; returns how many. Callers: the store's promote, when its own watermark lies in
-- the future. May call: worker. Plan: free. Lock: the rows it changes, without waiting.
CREATE OR REPLACE FUNCTION windlass.clock_back(p_limit int) RETURNS int
LANGUAGE sql SECURITY DEFINER AS $$
    SELECT count(windlass.bucket_resume(y.budget, y.key)::text)::int
      FROM (SELECT x.budget, x.key FROM windlass.bucket x WHERE x.at > windlass.unix_time() + 1
             LIMIT p_limit FOR UPDATE SKIP LOCKED) AS y
$$;

-- ==== Statements that the store sends ====

-- :budgets
-- Every budget but those of governors, or the one called $1: settings, its bucket for all, its breaker [F1]
-- [F7]. How many wait is counted up to 10,000.
-- Callers: Budgets. Lock: none.
SELECT b.*, greatest(0, k.tokens) AS tokens, k.used, k.used_until, windlass.breaker_state(b, t.now) AS state,
       greatest(0, k.paused_until - t.now, windlass.breaker_left(b, t.now)) AS paused_for,
       (SELECT count(*) FROM (SELECT FROM windlass.held h
                               WHERE h.gate >= 'budget:' || b.name || '/'
                                 AND h.gate < 'budget:' || b.name || '0'
                               LIMIT 10000) AS w)
       + (SELECT count(*) FROM (SELECT FROM windlass.held h
                                 WHERE h.gate >= 'over:' || b.name || '/'
                                   AND h.gate < 'over:' || b.name || '0'
                                 LIMIT 10000) AS w) AS waiting
  FROM windlass.unix_time() AS t (now) CROSS JOIN windlass.budget b
 CROSS JOIN LATERAL windlass.bucket_at(b, windlass.bucket_of(b, ''), t.now) AS k
 WHERE position(':' IN b.name) = 0 AND ($1::text IS NULL OR b.name = $1)
 ORDER BY b.name COLLATE "C"

-- :over
-- Budgets that jobs need more of than they can hold, with the largest need, counted up to 1,000 [F1].
-- Callers: diagnosis. Lock: none.
SELECT split_part(substr(l.gate, 6), '/', 1) AS budget, sum(h.n) AS waiting, max(h.need) AS need
  FROM unnest(windlass.next_waiting_lists('over:', 'over;', '', 100)) AS l (gate)
 CROSS JOIN LATERAL (SELECT count(*) AS n, max(x.need) AS need
                       FROM (SELECT y.need FROM windlass.held y WHERE y.gate = l.gate LIMIT 1000) AS x) AS h
 GROUP BY 1 ORDER BY 1

-- :usage
-- Which keys have used most of budget $1 in this period, up to $2 of them.
-- Callers: Budgets. Lock: none.
SELECT k.key, k.used, k.used_until AS until
  FROM windlass.unix_time() AS t (now), windlass.bucket k
 WHERE k.budget = $1 AND k.used > 0 AND k.used_until > t.now
 ORDER BY k.used DESC, k.key LIMIT $2
