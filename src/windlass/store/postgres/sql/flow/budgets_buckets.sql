-- Buckets: how many tokens each holds at a moment, taking them, giving them back, by a claim or by hand.

-- ==== Current state ====

-- The row of a bucket, or the row a new one would have: full, less any drain. No row: there is no such
-- budget.
-- Callers: bucket_tokens, bucket_wait, claim_tokens, the store's readings. May call: worker, reader. Plan:
-- pinned. Lock: none.
CREATE OR REPLACE FUNCTION windlass.bucket_of(b windlass.budget, p_key text) RETURNS windlass.bucket
LANGUAGE plpgsql STABLE AS $$
DECLARE
    k windlass.bucket;
BEGIN
    SELECT * INTO k FROM windlass.bucket x WHERE x.budget = b.name AND x.key = p_key;
    IF NOT FOUND THEN
        k := ROW (b.burst, 0, 0, 0, 0, 0, 0, 0, b.name, p_key)::windlass.bucket;
    END IF;
    RETURN k;
END $$;

-- A bucket at a given time: with the tokens accrued since it was written, and with drains of the whole budget
-- that it has not applied yet [F1]. If the clock was set back by more than a second, the bucket and its pause
-- continue from the new time. While blocks of its tokens are out it accrues to its ceiling. The same as
-- Bucket.refilled and Bucket.drained in windlass.core.
-- Callers: the functions of budgets, the store's readings. May call: worker, reader.
-- Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.bucket_at(
    b windlass.budget, k windlass.bucket, p_now float8) RETURNS windlass.bucket
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_since float8;
    v_until float8;
BEGIN
    IF k.at > p_now + :clock.SLIP THEN
        k.paused_until := greatest(0, k.paused_until - (k.at - p_now));
        k.leased_until := greatest(0, k.leased_until - (k.at - p_now));
        k.whole_until := greatest(0, k.whole_until - (k.at - p_now));
        k.at := p_now;
    END IF;
    IF k.drains < b.drains THEN
        IF b.drained_at > p_now + :clock.SLIP THEN
            b.drained_until := b.drained_until - (b.drained_at - p_now);
            b.drained_at := p_now;
        END IF;
        -- What was booked when it was drained is still to be paid off.
        k.tokens := least(0, k.tokens + b.rate * greatest(0, b.drained_at - greatest(k.at, k.paused_until)));
        k.paused_until := greatest(k.paused_until, b.drained_until);
        k.at := greatest(k.at, b.drained_at);
        k.drains := b.drains;
    END IF;
    -- Where the clock was set back to before this period, what was used stays.
    IF k.used_until <= p_now OR k.used_until > p_now + (CASE b.cap_per :caps.LONGEST END) THEN
        k.used := CASE WHEN k.used_until <= p_now THEN 0 ELSE k.used END;
        k.used_until := windlass.period_end(b, p_now);
    END IF;
    v_since := greatest(k.at, k.paused_until);
    IF k.leased_until > v_since THEN
        v_until := greatest(v_since, least(p_now, k.leased_until));
        k.tokens := least(windlass.bucket_ceiling(b), k.tokens + b.rate * (v_until - v_since));
        v_since := v_until;
    END IF;
    k.tokens := least(b.burst, k.tokens + b.rate * greatest(0, p_now - v_since));
    k.at := greatest(k.at, p_now);
    RETURN k;
END $$;

-- When the period of a budget's cap ends that a time is in [F1]: hours are those of UTC, days and months
-- begin at midnight in its zone. The same as period_end in windlass.core.flow.caps.
-- Callers: bucket_at, bucket_used_but, budget_write. May call: worker, reader. Plan: the caller's.
-- Lock: none.
CREATE OR REPLACE FUNCTION windlass.period_end(b windlass.budget, p_now float8) RETURNS float8
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF b.cap_per = 'hour' THEN
        RETURN (floor(p_now / 3600) + 1) * 3600;
    END IF;
    RETURN date_part('epoch', (date_trunc(b.cap_per, to_timestamp(p_now) AT TIME ZONE b.cap_zone)
                               + ('1 ' || b.cap_per)::interval) AT TIME ZONE b.cap_zone);
END $$;

-- What was taken of a bucket in this period without p_n tokens that were taken p_age seconds ago, which may
-- have been in another one [F1]. The same as Bucket._used_but in windlass.core.
-- Callers: bucket_given, bucket_settle. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.bucket_used_but(
    b windlass.budget, k windlass.bucket, p_n bigint, p_now float8, p_age float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_age <= 0 OR windlass.period_end(b, p_now - p_age) >= k.used_until
                THEN greatest(0, k.used - p_n) ELSE k.used END
$$;

-- What a bucket would grant but for a pause: its tokens, or what its cap leaves of them [F1]. The same as
-- Bucket.left in windlass.core.
-- Callers: bucket_tokens, bucket_take, lease_tokens, claim_tokens_at_once. May call: worker, reader. Plan:
-- the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.bucket_left(b windlass.budget, k windlass.bucket) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
    SELECT least(k.tokens, b.cap - k.used)
$$;

-- Seconds that a block of tokens may be handed out for: 50 ms, or less where half of the burst has accrued by
-- then [F1]. The same as Bucket.held_for in windlass.core.
-- Callers: bucket_ceiling, lease_tokens. May call: worker, reader. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.block_seconds(b windlass.budget) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN 2 * b.rate * :bucket.HELD_FOR <= b.burst THEN :bucket.HELD_FOR
                ELSE b.burst / (2 * b.rate) END
$$;

-- The most that a bucket holds while blocks of its tokens are out [F1]. The same as Bucket.ceiling in
-- windlass.core.
-- Callers: bucket_at, bucket_given, bucket_settle, lease_tokens. May call: worker, reader.
-- Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.bucket_ceiling(b windlass.budget) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
    SELECT b.burst - b.rate * windlass.block_seconds(b)
$$;

-- How many seconds ahead a claim may book tokens: 0.1, less where the clock went back a little; none while
-- the bucket is paused, its breaker is not closed, blocks are out, or somebody went without by hand [F1]. The
-- same as in Bucket.soon in windlass.core.
-- Callers: bucket_tokens, bucket_take, bucket_wait. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.bucket_ahead(
    b windlass.budget, k windlass.bucket, p_now float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_now >= greatest(k.paused_until, k.leased_until, k.whole_until) AND b.rate > 0
                     AND windlass.breaker_state(b, p_now) = 'closed'
                THEN greatest(0, :bucket.AHEAD - (k.at - p_now)) ELSE 0 END
$$;

-- How many whole tokens a bucket would grant now, to takers of p_each: 0 where the budget is unknown or
-- drained, or its breaker is open; where that is half-open, p_each at most, for the probe [F1] [F7]. p_ahead:
-- with those that a claim may book.
-- Callers: claim_tokens, claim_tokens_quickly, claim_room, admit_gate. May call: worker. Plan: the caller's.
-- Lock: none.
CREATE OR REPLACE FUNCTION windlass.bucket_tokens(
    p_budget text, p_key text, p_each int DEFAULT 1, p_now float8 DEFAULT NULL, p_ahead boolean DEFAULT false)
RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    b     windlass.budget;
    k     windlass.bucket;
    v_now float8 := windlass.unix_time(p_now);
BEGIN
    SELECT * INTO b FROM windlass.budget x WHERE x.name = p_budget;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    k := windlass.bucket_at(b, windlass.bucket_of(b, p_key), v_now);
    IF v_now < k.paused_until OR windlass.breaker_left(b, v_now) > 0 THEN
        RETURN 0;
    END IF;
    IF p_ahead THEN
        k.tokens := k.tokens + b.rate * windlass.bucket_ahead(b, k, v_now);
    END IF;
    RETURN floor(greatest(0, least(windlass.bucket_left(b, k), :budgets.MOST_TOKENS,
                                   CASE WHEN windlass.breaker_state(b, v_now) <> 'closed' THEN p_each END)));
END $$;

-- Seconds until a bucket may grant p_n tokens; infinite where it never will: an unknown budget, more than its
-- burst, no rate [F1]. p_promised: until a claim may book them beside so many that are reserved for others.
-- Callers: gate_wait, take_tokens. May call: worker. Plan: the caller's. Lock: none.
-- The same as Bucket.wait in windlass.core, and no sooner than its breaker allows [F7].
CREATE OR REPLACE FUNCTION windlass.bucket_wait(
    p_budget text, p_key text, p_n int, p_now float8 DEFAULT NULL, p_promised int DEFAULT NULL) RETURNS float8
LANGUAGE plpgsql AS $$
DECLARE
    b       windlass.budget;
    k       windlass.bucket;
    v_now   float8 := windlass.unix_time(p_now);
    v_ahead float8;
    v_n     float8 := p_n::float8 + coalesce(p_promised, 0);
    v_grown float8 := 0;
BEGIN
    SELECT * INTO b FROM windlass.budget x WHERE x.name = p_budget;
    IF NOT FOUND OR p_n > b.burst THEN
        RETURN 'Infinity';
    END IF;
    k := windlass.bucket_at(b, windlass.bucket_of(b, p_key), v_now);
    v_ahead := CASE WHEN p_promised IS NOT NULL AND k.tokens < b.burst
                    THEN windlass.bucket_ahead(b, k, v_now) END;
    IF v_ahead > 0 THEN
        v_grown := (v_n - k.tokens) / b.rate - v_ahead;
    ELSIF p_promised > 0 AND v_n > b.burst THEN
        -- It cannot hold as many: those others come first.
        v_grown := CASE WHEN b.rate > 0 THEN b.burst / (2 * b.rate) ELSE 'Infinity' END;
    ELSIF k.tokens < v_n THEN
        -- Tokens accrue from then on.
        v_grown := CASE WHEN b.rate > 0 THEN (v_n - k.tokens) / b.rate ELSE 'Infinity' END
                 + greatest(0, k.at - v_now, k.paused_until - v_now);
    END IF;
    RETURN greatest(v_grown, k.paused_until - v_now, windlass.breaker_left(b, v_now),
                    CASE WHEN p_promised > 0 AND (v_ahead > 0 OR v_n > b.burst) THEN :bucket.LOOK_AGAIN
                         ELSE :bucket.MIN_WAIT END,
                    CASE WHEN k.used + v_n > b.cap THEN k.used_until - v_now END);
END $$;

-- ==== By hand ====

-- Takes tokens of a budget by hand, all or none [F1]: whether they were granted, and if not, in how many
-- seconds it makes sense to ask again.
-- Callers: users, the store. May call: worker, producer. Plan: free. Lock: the bucket's row until the
-- transaction ends, so do not call it in a long one.
CREATE OR REPLACE FUNCTION windlass.take_tokens(
    p_budget text, p_n int DEFAULT 1, p_key text DEFAULT '', OUT granted boolean, OUT wait float8)
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF p_n IS NULL OR p_n < 1 OR EXISTS (SELECT FROM windlass.budget b
                                          WHERE b.name = p_budget AND b.burst < p_n) THEN
        RAISE EXCEPTION 'budget % can never grant % at once', p_budget,
            CASE p_n WHEN 1 THEN '1 token' ELSE coalesce(p_n::text, 'NULL') || ' tokens' END
                USING ERRCODE = 'WL005',
            HINT = 'Take at least 1 and at most its burst, or raise its burst.';
    END IF;
    granted := position(':' IN p_budget) = 0
               AND windlass.bucket_take(p_budget, left(coalesce(p_key, ''), :fields.MAX_KEY), p_n,
                                        true) = p_n;
    IF NOT granted THEN
        -- Claims that have booked tokens would always come first: they book none until this caller has asked
        -- again, as in Bucket.refused in windlass.core.
        UPDATE windlass.bucket x
           SET whole_until = greatest(x.whole_until, t.now + b.burst / b.rate + 2 * :bucket.AHEAD)
          FROM windlass.budget b, windlass.unix_time() AS t (now)
         WHERE b.name = p_budget AND x.budget = b.name AND x.key = left(coalesce(p_key, ''), :fields.MAX_KEY)
           AND b.rate > 0 AND (windlass.bucket_at(b, x, t.now)).tokens < 0;
    END IF;
    -- A budget that nobody has declared yet may be declared at any moment.
    wait := CASE WHEN granted THEN 0 WHEN EXISTS (SELECT FROM windlass.budget b WHERE b.name = p_budget)
                 THEN windlass.bucket_wait(p_budget, left(coalesce(p_key, ''), :fields.MAX_KEY), p_n)
                 ELSE 5 END;
END $$;

-- Takes tokens for callers of one process in their order, of each all or none, after p_rest tokens of a
-- block that was leased at p_leased_at were given back. Where all are served, a block of p_extra tokens at
-- most, and of half of what is left, which that process may hand out for block_seconds [F1]. A half-open
-- breaker lets one through, the probe, and no block [F7]. No rate: there is no such budget.
-- Callers: the store. May call: worker, producer. Plan: pinned. Lock: the bucket's row until the transaction
-- ends; when half-open also the budget's row, without waiting, as bucket_take. The same as Bucket.lease in
-- windlass.core.
CREATE OR REPLACE FUNCTION windlass.lease_tokens(
    p_budget text, p_key text, p_needs int[], p_extra int, p_rest int, p_leased_at float8,
    OUT served boolean[], OUT block int, OUT now float8, OUT rate float8, OUT burst float8,
    OUT tokens float8, OUT at float8, OUT paused_until float8, OUT leased_until float8)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    b      windlass.budget;
    k      windlass.bucket;
    v_n    int;
    v_most int;
    v_some boolean := p_rest > 0;
BEGIN
    p_needs := ARRAY(SELECT n FROM unnest(p_needs) AS n);  -- counted from 1, whatever the caller's was
    IF 1 > ANY (p_needs) OR array_position(p_needs, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'tokens of budget % cannot be taken', p_budget USING ERRCODE = 'WL005',
            HINT = 'Ask for 1 or more for each caller.';
    END IF;
    served := array_fill(false, ARRAY[cardinality(p_needs)]);
    block := 0;
    k := windlass.bucket_lock(CASE WHEN position(':' IN p_budget) = 0 THEN p_budget END,
                              left(coalesce(p_key, ''), :fields.MAX_KEY));
    -- Read after the lock: set_budget holds all bucket rows until its new rate is visible.
    SELECT * INTO b FROM windlass.budget x WHERE x.name = k.budget;
    now := windlass.unix_time();
    IF NOT FOUND THEN
        RETURN;
    END IF;
    k := windlass.bucket_at(b, k, now);
    IF p_rest > 0 AND now >= p_leased_at THEN
        k := windlass.bucket_given(b, k, p_rest, now, now - p_leased_at);
    END IF;
    IF now >= k.paused_until AND windlass.breaker_left(b, now) = 0 THEN
        IF windlass.breaker_state(b, now) <> 'closed' THEN
            v_most := 1;
        END IF;
        FOR i IN 1 .. cardinality(p_needs) LOOP
            CONTINUE WHEN v_most = 0 OR p_needs[i] > windlass.bucket_left(b, k);
            IF v_most = 1 THEN
                -- One probe over all buckets: it goes to whoever locks the row first and finds none under
                -- way.
                PERFORM FROM windlass.budget x WHERE x.name = b.name AND windlass.breaker_left(x, now) = 0
                    AND x.openings > 0
                    FOR NO KEY UPDATE SKIP LOCKED;
                EXIT WHEN NOT FOUND;
                UPDATE windlass.budget x SET probing = true,
                       until = now + windlass.breaker_length(x.breaker_pause, x.openings)
                 WHERE x.name = b.name RETURNING x.* INTO b;
                v_most := 0;
            END IF;
            served[i] := true;
            v_some := true;
            k.tokens := k.tokens - p_needs[i];
            k.used := k.used + p_needs[i];
        END LOOP;
        -- As in take_tokens.
        IF v_most IS NULL AND k.tokens < 0 AND b.rate > 0
           AND EXISTS (SELECT FROM unnest(p_needs) AS u (n) WHERE u.n <= b.burst) THEN
            k.whole_until := greatest(k.whole_until, now + b.burst / b.rate + 2 * :bucket.AHEAD);
            v_some := true;
        END IF;
        -- While blocks are out the bucket never holds its burst. Who needs more than it holds then, by hand
        -- or as a job that waits, would wait for as long as others call.
        IF v_most IS NULL
           AND EXISTS (SELECT FROM unnest(p_needs, served) AS u (n, served)
                    WHERE NOT u.served AND u.n > windlass.bucket_ceiling(b) AND u.n <= b.burst) THEN
            k.whole_until := greatest(k.whole_until, CASE WHEN b.rate > 0 THEN greatest(k.leased_until, now)
                                                                               + b.burst / b.rate
                                                          ELSE now END);
            v_some := true;
        END IF;
        IF v_most IS NULL AND NOT false = ANY (served) AND now >= k.whole_until AND p_extra > 0
           AND NOT EXISTS (SELECT FROM windlass.held h
                            WHERE h.gate = 'budget:' || k.budget || '/' || k.key) THEN
            v_n := least(p_extra, floor(least(windlass.bucket_left(b, k), windlass.bucket_ceiling(b), 2e9)
                                         / 2));
            IF v_n >= 1 THEN
                block := v_n;
                v_some := true;
                k.tokens := least(k.tokens, windlass.bucket_ceiling(b)) - v_n;
                k.used := k.used + v_n;
                k.leased_until := greatest(k.leased_until, now + windlass.block_seconds(b));
            END IF;
        END IF;
    END IF;
    IF v_some THEN
        UPDATE windlass.bucket x SET tokens = k.tokens, at = k.at, paused_until = k.paused_until,
               leased_until = k.leased_until, whole_until = k.whole_until, drains = k.drains, used = k.used,
               used_until = k.used_until
         WHERE x.budget = k.budget AND x.key = k.key;
    END IF;
    rate := b.rate;
    burst := b.burst;
    tokens := k.tokens;
    at := k.at;
    -- Who lacks what the cap has left waits for the end of its period.
    paused_until := greatest(k.paused_until, now + windlass.breaker_left(b, now),
                             (SELECT k.used_until FROM unnest(p_needs, served) AS u (n, served)
                               WHERE NOT u.served AND k.used + u.n > b.cap LIMIT 1));
    leased_until := k.leased_until;
END $$;

-- Gives back tokens that were taken p_age seconds ago and not used [F1].
-- Callers: users, the store. May call: worker, producer. Plan: free. Lock: the bucket's row.
CREATE OR REPLACE FUNCTION windlass.give_tokens(
    p_budget text, p_n int, p_key text DEFAULT '', p_age float8 DEFAULT 0)
RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
    SELECT windlass.bucket_give(p_budget, left(coalesce(p_key, ''), :fields.MAX_KEY), p_n, NULL, p_age)
     WHERE position(':' IN p_budget) = 0 AND p_n > 0
$$;

-- Empties one bucket of a budget, or with a key of NULL all of them, which then grant nothing for so many
-- seconds [F1].
-- Callers: users, the store. May call: worker. Plan: pinned. Lock: the bucket's row; for all, the budget's:
-- each bucket applies the drain when it is next used. The same as Bucket.drained in windlass.core.
CREATE OR REPLACE FUNCTION windlass.drain_budget(
    p_budget text, p_pause float8, p_key text DEFAULT NULL, p_now float8 DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    b       windlass.budget;
    k       windlass.bucket;
    v_now   float8;
    v_pause float8 := least(greatest(p_pause, 0), 3155760000);
BEGIN
    -- A governor's budget cannot be drained.
    p_budget := CASE WHEN position(':' IN p_budget) = 0 THEN p_budget ELSE '' END;
    v_now := windlass.unix_time(p_now);
    IF p_key IS NULL THEN
        UPDATE windlass.budget x
           SET drains = x.drains + 1,
               drained_at = CASE WHEN x.drained_at > v_now + 1 THEN v_now
                                 ELSE greatest(x.drained_at, v_now) END,
               drained_until = greatest(x.drained_until - CASE WHEN x.drained_at > v_now + 1
                                                               THEN x.drained_at - v_now ELSE 0 END,
                                        v_now + v_pause)
         WHERE x.name = p_budget;
        IF FOUND THEN
            RETURN;
        END IF;
    ELSE
        k := windlass.bucket_lock(p_budget, left(p_key, :fields.MAX_KEY), p_now);
        SELECT * INTO b FROM windlass.budget x WHERE x.name = p_budget;
        IF FOUND THEN
            v_now := windlass.unix_time(p_now);
            k := windlass.bucket_at(b, k, v_now);
            k.paused_until := greatest(k.paused_until, v_now + v_pause);
            UPDATE windlass.bucket x SET tokens = least(0, k.tokens), at = k.at,
                   paused_until = k.paused_until,
                   leased_until = k.leased_until, drains = k.drains, used = k.used, used_until = k.used_until
             WHERE x.budget = p_budget AND x.key = k.key;
            RETURN;
        END IF;
    END IF;
    RAISE EXCEPTION 'there is no budget %', quote_nullable(p_budget) USING ERRCODE = 'WL005',
        HINT = 'Declare it, or give it a rate to make it.';
END $$;

-- ==== Taking and giving ====

-- Locks the row of a bucket, and adds it if the key is new.
-- Callers: bucket_take, bucket_try, bucket_give, bucket_settle, spend_tokens, drain_budget, lease_tokens. May
-- call: worker. Plan: pinned. Lock: that row until the transaction ends. Who locks several takes them in the
-- order of budget and key, and the row of a budget after those of its buckets. A new row starts full and with
-- an old time, so that earlier drains apply to it as to any other.
CREATE OR REPLACE FUNCTION windlass.bucket_lock(
    p_budget text, p_key text, p_now float8 DEFAULT NULL) RETURNS windlass.bucket
LANGUAGE plpgsql AS $$
DECLARE
    k windlass.bucket;
BEGIN
    LOOP
        SELECT * INTO k FROM windlass.bucket x WHERE x.budget = p_budget AND x.key = p_key FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO windlass.bucket (budget, key, tokens, at)
        SELECT b.name, p_key, b.burst, 0 FROM windlass.budget b WHERE b.name = p_budget
            ON CONFLICT DO NOTHING;
        EXIT WHEN NOT FOUND AND NOT EXISTS (SELECT FROM windlass.budget b WHERE b.name = p_budget);
    END LOOP;
    IF k.at > windlass.unix_time(p_now) + 1 THEN
        PERFORM windlass.bucket_resume(p_budget, p_key, p_now);
        SELECT * INTO k FROM windlass.bucket x WHERE x.budget = p_budget AND x.key = p_key;
    END IF;
    RETURN k;
END $$;

-- Locks the row of a bucket as bucket_lock does, but waits for p_wait ms at most; false: it is still locked,
-- for example by a transaction that takes tokens by hand.
-- Callers: claim_count, claim_tokens, claim_tokens_quickly, which hold a lane meanwhile; bucket_is_free. May
-- call: worker. Plan: pinned. Lock: that row, until the transaction ends.
CREATE OR REPLACE FUNCTION windlass.bucket_try(p_budget text, p_key text, p_wait int) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_before text := current_setting('lock_timeout');
    v_at     float8;
BEGIN
    SELECT x.at INTO v_at FROM windlass.bucket x WHERE x.budget = p_budget AND x.key = p_key
       FOR UPDATE SKIP LOCKED;
    IF v_at > windlass.unix_time() + 1 THEN
        PERFORM windlass.bucket_resume(p_budget, p_key);
    END IF;
    IF v_at IS NOT NULL THEN
        RETURN true;
    END IF;
    BEGIN
        PERFORM set_config('lock_timeout', greatest(p_wait, 1) || 'ms', true);
        PERFORM windlass.bucket_lock(p_budget, p_key);
        PERFORM set_config('lock_timeout', v_before, true);
        RETURN true;
    EXCEPTION WHEN lock_not_available THEN
        RETURN false;
    END;
END $$;

-- Whether a claim could take tokens of a bucket now: nobody keeps its row locked for long, nor, while its
-- breaker is half-open, that of the budget.
-- Callers: admit_gate, sweep_gates. May call: worker. Plan: pinned. Lock: those rows, let go at once.
CREATE OR REPLACE FUNCTION windlass.bucket_is_free(p_budget text, p_key text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_free boolean;
BEGIN
    v_free := windlass.bucket_try(p_budget, p_key, 5);
    PERFORM FROM windlass.budget x WHERE x.name = p_budget AND x.openings > 0 AND x.breaker > 0
        FOR NO KEY UPDATE SKIP LOCKED;
    v_free := v_free
              AND (FOUND OR NOT EXISTS (SELECT FROM windlass.budget x WHERE x.name = p_budget
                                           AND x.openings > 0 AND x.breaker > 0));
    RAISE lock_not_available;  -- so that the locks end with the subtransaction
EXCEPTION WHEN lock_not_available THEN
    RETURN v_free;
END $$;

-- Lets a bucket continue from now if the clock was set back since it was written [F1] [fault 31]. A bucket
-- that refuses is not written otherwise: an empty one would stand still until the clock has caught up.
-- Callers: bucket_lock, bucket_try, claim_room, admit_gate, clock_back. May call: worker. Plan: pinned. Lock:
-- its row, without waiting, where the clock was set back.
CREATE OR REPLACE FUNCTION windlass.bucket_resume(
    p_budget text, p_key text, p_now float8 DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_now float8 := windlass.unix_time(p_now);
BEGIN
    IF EXISTS (SELECT FROM windlass.bucket x WHERE x.budget = p_budget AND x.key = p_key
                  AND x.at > v_now + 1) THEN
        PERFORM FROM windlass.bucket x WHERE x.budget = p_budget AND x.key = p_key FOR UPDATE SKIP LOCKED;
        UPDATE windlass.bucket x
           SET (tokens, at, paused_until, leased_until, whole_until, drains, used, used_until) =
               (SELECT r.tokens, r.at, r.paused_until, r.leased_until, r.whole_until, r.drains, r.used,
                       r.used_until
                  FROM windlass.bucket_at(b, x, v_now) AS r)
          FROM windlass.budget b
         WHERE FOUND AND b.name = p_budget AND x.budget = p_budget AND x.key = p_key;
    END IF;
END $$;

-- Takes p_n tokens of a bucket, all or none; with NOT p_all, as many multiples of p_each as there are, up to
-- p_n. Returns how many [F1]. p_ahead: also those that a claim may book. A half-open breaker grants once, p_n
-- or p_each: that is the probe [F7]. An unknown budget grants nothing.
-- Callers: claim_count, claim_tokens, claim_tokens_quickly, take_tokens. May call: worker. Plan: pinned.
-- Lock: the bucket's row until the transaction ends; when half-open also the budget's row, without waiting,
-- since its holder may be waiting for this bucket; if it is locked, the answer is no. The time is read with
-- the lock held. A claim sorts its buckets by budget and key before it takes. The same as Bucket.take,
-- Breaker.allows and Breaker.granted in windlass.core.
CREATE OR REPLACE FUNCTION windlass.bucket_take(
    p_budget text, p_key text, p_n int, p_all boolean, p_each int DEFAULT 1, p_now float8 DEFAULT NULL,
    p_ahead boolean DEFAULT false)
RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    b     windlass.budget;
    k     windlass.bucket;
    v_now float8;
    v_n   int;
    v_left float8;
BEGIN
    k := windlass.bucket_lock(p_budget, p_key, p_now);
    -- Read after the lock: set_budget holds all bucket rows until its new rate is visible.
    SELECT * INTO b FROM windlass.budget x WHERE x.name = p_budget;
    IF NOT FOUND OR k.budget IS NULL THEN
        RETURN 0;
    END IF;
    v_now := windlass.unix_time(p_now);
    k := windlass.bucket_at(b, k, v_now);
    IF v_now < k.paused_until THEN
        RETURN 0;
    END IF;
    v_left := windlass.bucket_left(b, k);
    IF p_ahead AND v_left < p_n THEN
        v_left := least(k.tokens + b.rate * windlass.bucket_ahead(b, k, v_now), b.cap - k.used);
    END IF;
    v_n := CASE WHEN p_all THEN p_n ELSE floor(least(p_n, v_left))::int / p_each * p_each END;
    IF windlass.breaker_state(b, v_now) <> 'closed' THEN
        v_n := CASE WHEN p_all THEN v_n ELSE least(v_n, p_each) END;
        IF windlass.breaker_left(b, v_now) > 0 OR v_n < 1 OR v_left < v_n THEN
            RETURN 0;
        END IF;
        -- One probe over all buckets: it goes to whoever locks the row first and finds none under way.
        PERFORM FROM windlass.budget x WHERE x.name = p_budget AND windlass.breaker_left(x, v_now) = 0
            AND x.openings > 0
            FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN 0;
        END IF;
        UPDATE windlass.budget x SET probing = true, until = v_now + windlass.breaker_length(x.breaker_pause,
                x.openings)
         WHERE x.name = p_budget;
    ELSIF v_n < 1 OR v_left < v_n THEN
        RETURN 0;
    END IF;
    UPDATE windlass.bucket x
       SET tokens = k.tokens - v_n, at = k.at, paused_until = k.paused_until,
           leased_until = k.leased_until, drains = k.drains, used = k.used + v_n, used_until = k.used_until
     WHERE x.budget = p_budget AND x.key = p_key;
    RETURN v_n;
END $$;

-- Gives back tokens that were taken and not used; a bucket never holds more than its burst [F1].
-- Callers: give_tokens. May call: worker. Plan: pinned. Lock: the bucket's row until the transaction ends.
CREATE OR REPLACE FUNCTION windlass.bucket_give(
    p_budget text, p_key text, p_n int, p_now float8 DEFAULT NULL, p_age float8 DEFAULT 0) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    b     windlass.budget;
    k     windlass.bucket;
    v_now float8;
BEGIN
    k := windlass.bucket_lock(p_budget, p_key, p_now);
    SELECT * INTO b FROM windlass.budget x WHERE x.name = p_budget;
    IF FOUND AND k.budget IS NOT NULL THEN
        v_now := windlass.unix_time(p_now);
        k := windlass.bucket_given(b, windlass.bucket_at(b, k, v_now), p_n, v_now, p_age);
        UPDATE windlass.bucket x SET tokens = k.tokens, at = k.at, paused_until = k.paused_until,
               leased_until = k.leased_until, drains = k.drains, used = k.used, used_until = k.used_until
         WHERE x.budget = p_budget AND x.key = p_key;
    END IF;
END $$;

-- A bucket as of p_now, with tokens that were taken p_age seconds before and not used [F1]. The same as
-- Bucket.give_back in windlass.core.
-- Callers: bucket_give, lease_tokens. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.bucket_given(
    b windlass.budget, k windlass.bucket, p_n int, p_now float8, p_age float8) RETURNS windlass.bucket
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_age  float8 := greatest(0, p_age);
    v_most float8 := CASE WHEN p_now < k.leased_until THEN windlass.bucket_ceiling(b) ELSE b.burst END;
BEGIN
    k.used := windlass.bucket_used_but(b, k, p_n, p_now, v_age);
    IF p_now - v_age >= k.paused_until THEN
        k.tokens := least(greatest(v_most, k.tokens), k.tokens + greatest(0, p_n - b.rate * v_age));
    END IF;
    RETURN k;
END $$;

-- ==== Settling ====

-- Corrects a bucket by what was really used: p_more than was taken p_age seconds ago by hand, or less, up to
-- a thousand million [F1].
-- Callers: users, the store. May call: worker, producer. Plan: free. Lock: the bucket's row.
CREATE OR REPLACE FUNCTION windlass.settle_tokens(
    p_budget text, p_more bigint, p_key text DEFAULT '', p_age float8 DEFAULT 0) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF p_more NOT BETWEEN -:budgets.MOST_TOKENS AND :budgets.MOST_TOKENS THEN
        RAISE EXCEPTION 'budget % cannot be settled by % tokens', p_budget, p_more USING ERRCODE = 'WL005',
            HINT = 'Say by how many more or fewer than were taken, 1,000,000,000 at most.';
    ELSIF position(':' IN p_budget) = 0 AND p_more <> 0 THEN
        PERFORM windlass.bucket_settle(p_budget, left(coalesce(p_key, ''), :fields.MAX_KEY), p_more, p_age);
    END IF;
END $$;

-- A run says how many tokens of a budget it really used, all in all, fenced by worker and claim [F1] [C5].
-- p_before: what it took with its claim, or said last. False: the claim is not the worker's, or the job has
-- ended. What an attempt says again changes nothing.
-- Callers: the store. May call: worker. Plan: pinned. Lock: the life row FOR KEY SHARE, see worker_fence,
-- then the bucket's row, as a claim does; it makes two that speak for one attempt wait for each other.
CREATE OR REPLACE FUNCTION windlass.spend_tokens(
    p_worker bigint, p_lane int, p_claim bigint, p_seq bigint, p_budget text, p_key text, p_before bigint,
    p_tokens bigint, p_age float8) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_said bigint;
BEGIN
    PERFORM windlass.worker_fence(p_worker, true);
    PERFORM FROM windlass.claim c
      WHERE c.lane = p_lane AND c.id = p_claim AND c.worker = p_worker
        AND windlass.unfinished(c.id, c.seqs) @> p_seq;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM windlass.bucket_lock(p_budget, left(p_key, :fields.MAX_KEY));
    SELECT s.tokens INTO v_said FROM windlass.spent s
     WHERE s.claim = p_claim AND s.seq = p_seq AND s.budget = p_budget;
    IF p_tokens IS DISTINCT FROM v_said THEN
        INSERT INTO windlass.spent AS s (claim, seq, tokens, at, budget)
        VALUES (p_claim, p_seq, p_tokens, windlass.unix_time(), p_budget)
        ON CONFLICT (claim, seq, budget) DO UPDATE SET tokens = excluded.tokens, at = excluded.at;
        PERFORM windlass.bucket_settle(p_budget, left(p_key, :fields.MAX_KEY),
                                       p_tokens - coalesce(v_said, p_before),
                                       p_age);
    END IF;
    RETURN true;
END $$;

-- Corrects a bucket by p_more tokens than were taken. They may leave a debt, which lasts a day at most or is
-- no more than the burst. Less than was taken comes back in full, but for what was taken before a drain. The
-- same as Bucket.settled in windlass.core. Callers: settle_tokens, spend_tokens. May call: worker. Plan:
-- pinned. Lock: the bucket's row until the transaction ends.
CREATE OR REPLACE FUNCTION windlass.bucket_settle(
    p_budget text, p_key text, p_more bigint, p_age float8, p_now float8 DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    b      windlass.budget;
    k      windlass.bucket;
    v_now  float8;
    v_most float8;
BEGIN
    k := windlass.bucket_lock(p_budget, p_key, p_now);
    SELECT * INTO b FROM windlass.budget x WHERE x.name = p_budget;
    IF NOT FOUND OR k.budget IS NULL THEN
        RETURN;
    END IF;
    v_now := windlass.unix_time(p_now);
    k := windlass.bucket_at(b, k, v_now);
    IF p_more >= 0 THEN
        k.used := k.used + p_more;
        k.tokens := greatest(k.tokens - p_more,
                             least(k.tokens, -greatest(b.burst, b.rate * :bucket.DEBT_FOR)));
    ELSE
        k.used := windlass.bucket_used_but(b, k, -p_more, v_now, greatest(0, p_age));
        IF v_now - greatest(0, p_age) >= k.paused_until THEN
            v_most := CASE WHEN v_now < k.leased_until THEN windlass.bucket_ceiling(b) ELSE b.burst END;
            k.tokens := least(greatest(v_most, k.tokens), k.tokens - p_more);
        END IF;
    END IF;
    UPDATE windlass.bucket x SET tokens = k.tokens, at = k.at, paused_until = k.paused_until,
           leased_until = k.leased_until, drains = k.drains, used = k.used, used_until = k.used_until
     WHERE x.budget = p_budget AND x.key = p_key;
END $$;

-- ==== Expiry ====

-- Forgets what attempts said an hour ago that they used, up to p_limit of them [F1]. Returns how many.
-- Callers: expire_buckets. May call: worker. Plan: pinned. Lock: the rows it removes, without waiting.
CREATE OR REPLACE FUNCTION windlass.expire_spent(p_limit int) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_count bigint;
BEGIN
    DELETE FROM windlass.spent s
     WHERE s.ctid = ANY (ARRAY(SELECT x.ctid FROM windlass.spent x WHERE x.at < windlass.unix_time() - 3600
                                ORDER BY x.at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;

-- Removes buckets of keys that have been full for a minute, and those of budgets that are gone: one without a
-- row is full; and what expire_spent removes. Returns how many, of the kind that there was more of.
-- Callers: expire. May call: worker. Plan: the caller's. Lock: the rows it removes, without waiting.
CREATE OR REPLACE FUNCTION windlass.expire_buckets(p_limit int) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_now   float8 := windlass.unix_time();
    v_count bigint;
BEGIN
    WITH idle AS (
        SELECT k.budget, k.key FROM windlass.bucket k LEFT JOIN windlass.budget b ON b.name = k.budget
         WHERE b.name IS NULL
            OR k.key <> '' AND k.at < v_now - 60 AND k.used_until < v_now
               AND (windlass.bucket_at(b, k, v_now - 60)).tokens >= b.burst
               -- A new row would apply the last drain again; it must be full even so.
               AND (b.drains = 0 OR b.rate * (v_now - 60 - b.drained_until) >= b.burst)
         LIMIT p_limit FOR UPDATE OF k SKIP LOCKED)
    DELETE FROM windlass.bucket k USING idle i WHERE k.budget = i.budget AND k.key = i.key;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN greatest(v_count, windlass.expire_spent(p_limit));
END $$;

-- ==== What a job needs ====

-- How many tokens of which buckets the jobs of a claim need [F1]; those of a need that is costed say so in
-- their options. Callers: claim_tokens. May call: worker. Plan: the caller's. Lock: none. p_needs: as there.
-- Each OFFSET 0 is a fence: a payload is read once, however long it is.
CREATE OR REPLACE FUNCTION windlass.claim_token_needs(
    p_needs json, p_stays int[], p_tasks text[], p_payloads text[], p_options text[])
RETURNS windlass.want[]
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN (
        SELECT array_agg(ROW (x.place, x.n, x.budget, x.key)::windlass.want)
          FROM (SELECT v.place, v.budget, windlass.bucket_key(v.value) AS key,
                       least(sum(v.n), 2147483647) AS n
                  FROM (SELECT u.place, n.budget,
                               coalesce(CASE WHEN n.costed THEN (u.options -> 'costs' ->> n.budget)::int END,
                                        n.n) AS n,
                               windlass.need_value(u.payload, n.argument, n.place) AS value
                          FROM (SELECT y.place, p_tasks[y.place] AS task,
                                       p_payloads[y.place]::json AS payload,
                                       p_options[y.place]::json AS options
                                  FROM unnest(p_stays) AS y (place) OFFSET 0) AS u
                          JOIN windlass.needs_by_task(p_needs) AS n ON n.task = u.task OFFSET 0) AS v
                 GROUP BY 1, 2, 3) AS x);
END $$;

-- The tokens that tasks need, as the claimer said: one row per task and budget.
-- Callers: claim_tokens_quickly, claim_token_needs. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.needs_by_task(p_needs json)
RETURNS TABLE (task text, budget text, n int, argument text, place int, costed boolean)
LANGUAGE sql IMMUTABLE ROWS 10 AS $$
    SELECT k.key, r.budget, coalesce(r.n, 1), r.argument, r.place, coalesce(r.costed, false)
      FROM json_each(p_needs) AS k
     CROSS JOIN LATERAL json_to_recordset(k.value)
                        AS r (budget text, n int, argument text, place int, costed boolean)
$$;

-- The value of the argument that names a job's bucket: found by the argument's name, else by its position
-- [F1]. NULL: the job has no such argument.
-- Callers: claim_token_needs. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.need_value(p_payload json, p_argument text, p_place int) RETURNS json
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_argument IS NULL THEN NULL
                WHEN json_typeof(p_payload) = 'array' THEN p_payload -> p_place
                ELSE coalesce(p_payload -> p_argument, p_payload -> '*' -> p_place) END
$$;

-- The key of the bucket that a job draws from, by the value of the argument that need_value found: '' where
-- there is none [F1].
-- Callers: claim_token_needs. May call: worker. Plan: the caller's. Lock: none.
-- bucket_key in windlass.store.budgets says the same: a text is its own key, other values are keyed by their
-- JSON as it was sent, and no more than 255 characters count.
CREATE OR REPLACE FUNCTION windlass.bucket_key(p_value json) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_value IS NULL OR json_typeof(p_value) = 'null' THEN ''
                WHEN json_typeof(p_value) = 'string' THEN left(p_value #>> '{}', :fields.MAX_KEY)
                ELSE left(btrim(p_value::text, E' \t\n\r'), :fields.MAX_KEY) END
$$;
