-- Takes back what a worker that is not alive still holds, up to p_limit claims of it.
-- Callers: rescue_step, retire, adopt. Lock: the life row FOR UPDATE, so that two of them take turns; those of
-- offer.
-- kind 'lost' counts a death: p_delays[n] is the wait after the n-th, and beyond its end the job is poison [C8].
-- kind 'released' counts nothing. A job whose cancel was asked for is cancelled. `left_over` says: call again.
-- `freed`: as in finish; a worker that retires leaves that to the coordinator.
CREATE OR REPLACE FUNCTION windlass.give_back(
    p_worker bigint, p_kind text, p_delays float8[], p_limit int,
    OUT offered bigint, OUT deferred bigint, OUT dead bigint, OUT cancelled bigint, OUT left_over boolean,
    OUT freed text[])
LANGUAGE plpgsql AS $$
DECLARE
    d       record;
    v_ready windlass.ready;
    v_delay float8;
BEGIN
    PERFORM windlass.require_read_committed();
    PERFORM windlass.check_epoch();
    offered := 0;
    deferred := 0;
    dead := 0;
    cancelled := 0;
    left_over := false;
    freed := '{}';
    PERFORM FROM windlass.worker_life WHERE id = p_worker AND NOT alive FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    FOR d IN
        WITH held AS MATERIALIZED (
            SELECT h.*, windlass.job_of(h.ready) AS id, (h.ready).deaths + (p_kind = 'lost')::int AS deaths
              FROM windlass.holdings(p_worker) h),
        step AS (SELECT DISTINCT claim FROM held ORDER BY claim LIMIT p_limit),
        judged AS MATERIALIZED (
            SELECT h.*, (h.ready).lane AS lane, (h.ready).seq AS seq,
                   CASE WHEN EXISTS (SELECT FROM windlass.cancel_request q WHERE q.job = h.id) THEN 'cancelled'
                        WHEN p_kind = 'lost' AND h.deaths > cardinality(p_delays) THEN 'dead'
                        ELSE p_kind END AS kind
              FROM held h WHERE h.claim IN (SELECT claim FROM step)),
        added AS (
            INSERT INTO windlass.outcome (segment, claim, lane, flush, kind, seqs, n, at)
            SELECT segment, claim, lane, 0, kind, range_agg(int8range(seq, seq + 1)), count(*), windlass.now()
              FROM judged GROUP BY segment, claim, lane, kind)
        SELECT j.*, (SELECT count(DISTINCT claim) FROM held) > p_limit AS more FROM judged j ORDER BY j.claim, j.seq
    LOOP
        left_over := d.more;
        v_delay := CASE WHEN p_kind = 'lost' THEN p_delays[d.deaths] ELSE 0 END;
        IF d.kind IN ('cancelled', 'dead') OR v_delay > 0 THEN
            freed := freed || windlass.drop_passes(ARRAY[d.id], CASE WHEN d.kind IN ('cancelled', 'dead') THEN 'all' ELSE 'attempt' END,
                                                   p_kind <> 'lost');
        END IF;
        IF d.kind = 'cancelled' THEN
            cancelled := cancelled + 1;
            PERFORM windlass.settle(ARRAY[d.id], ARRAY[d.lane], ARRAY[d.claim], d.kind);
        ELSIF d.kind = 'dead' THEN
            dead := dead + 1;
            PERFORM windlass.bury_job(d.ready, d.deaths, 'poison');
            PERFORM windlass.settle(ARRAY[d.id], ARRAY[d.lane], ARRAY[d.claim], d.kind);
        ELSE
            offered := offered + (v_delay <= 0)::int;
            deferred := deferred + (v_delay > 0)::int;
            UPDATE windlass.checkpoint k SET claim = NULL, worker = NULL WHERE k.job = d.id AND k.claim = d.claim;
            v_ready := d.ready;
            v_ready.options := windlass.unknown_since(v_ready.options, false);
            PERFORM windlass.again(v_ready, v_delay, v_ready.attempt, d.deaths, true);
        END IF;
    END LOOP;
    IF NOT left_over THEN
        UPDATE windlass.worker_life SET settled = true WHERE id = p_worker;
    END IF;
END $$;
