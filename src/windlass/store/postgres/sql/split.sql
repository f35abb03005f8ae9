-- Ends a claimed attempt by making its job a parent, with its parts, and releases the first of them [P4]. Answers with
-- 'split', 'cancelled' (its cancel had been asked for), 'repeated' or 'refused'.
-- Callers: the store. Lock: the worker's life row FOR NO KEY UPDATE, so that of two that were sent at once the second sees what
-- the first has done; ACCESS SHARE on claim, as in finish; then those of advance.
CREATE OR REPLACE FUNCTION windlass.split(
    p_worker bigint, p_flush bigint, p_job bigint, p_lane int, p_claim bigint, p_seq bigint,
    p_spans text[], p_sizes bigint[], p_parallel int, p_tolerated int, p_finalizer boolean) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_seqs  int8multirange := int8multirange(int8range(p_seq, p_seq + 1));
    v_now   timestamptz;
    v_kind  text;
    c       windlass.claim;
    r       windlass.ready;
BEGIN
    PERFORM windlass.require_read_committed();
    IF NOT windlass.worker_alone(p_worker) THEN
        PERFORM windlass.worker_fence(p_worker);
    END IF;
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    SELECT * INTO c FROM windlass.claim x WHERE x.lane = p_lane AND x.id = p_claim;
    IF EXISTS (SELECT FROM windlass.parent x WHERE x.id = p_job AND x.claim = p_claim)
       AND (c.worker IS NULL OR c.worker = p_worker) THEN
        RETURN 'repeated';
    ELSIF windlass.is_wrong(c.worker, c.seqs, p_worker, v_seqs, p_flush) THEN
        RETURN 'refused';
    ELSIF c.id IS NULL OR windlass.flushed_in(p_claim, p_flush) @> v_seqs THEN
        RETURN 'repeated';
    ELSIF isempty(windlass.unfinished(p_claim, v_seqs)) THEN
        RETURN 'refused';
    END IF;
    SELECT * INTO STRICT r FROM windlass.ready x WHERE x.lane = p_lane AND x.seq = p_seq;
    v_now := windlass.now();
    v_kind := CASE WHEN EXISTS (SELECT FROM windlass.cancel_request q WHERE q.job = p_job) THEN 'cancelled' ELSE 'split' END;
    INSERT INTO windlass.outcome (segment, claim, lane, flush, kind, seqs, n, at)
    VALUES (c.segment, p_claim, p_lane, p_flush, v_kind, v_seqs, 1, v_now);
    IF v_kind = 'cancelled' THEN
        PERFORM windlass.settle(ARRAY[p_job], ARRAY[p_lane], ARRAY[p_claim], v_kind);
        IF pg_sequence_last_value('windlass.awaited'::regclass) = 1 THEN
            PERFORM windlass.wake('!');
        END IF;
        RETURN v_kind;
    END IF;
    DELETE FROM windlass.checkpoint k WHERE k.job = p_job;
    INSERT INTO windlass.parent (id, claim, snapshot, enqueued_at, created_at, queue, priority, task, payload, options,
                                 attempt, deaths, total, pending, size, parallel, tolerated, finalizer)
    SELECT p_job, p_claim, c.snapshot, windlass.enqueued_of(r), v_now, l.queue, l.priority, r.task, r.payload,
           windlass.unknown_since(r.options, false), r.attempt, r.deaths, cardinality(p_spans), cardinality(p_spans),
           (SELECT coalesce(sum(s), 0) FROM unnest(p_sizes) AS s), p_parallel, p_tolerated, p_finalizer
      FROM windlass.lane l WHERE l.id = p_lane;
    INSERT INTO windlass.part (parent, index, span, size)
    SELECT p_job, u.i - 1, u.span::json, u.size FROM unnest(p_spans, p_sizes) WITH ORDINALITY AS u (span, size, i);
    -- Its parts pass the gates themselves, but for that of its ordering key, which waits for the parent's end [F6].
    PERFORM windlass.drop_passes(ARRAY[p_job], 'attempt', true);
    PERFORM windlass.advance(p_job);
    RETURN v_kind;
END $$;
