-- Records the attempts that did not simply succeed, and does with each job what its outcome says.
-- Callers: finish, which holds the fence. Lock: those of offer.
-- A cancel that was asked for turns every outcome but dead into cancelled [O5]; a retry of the last attempt is
-- a death [O4]. The outcome rows come first: only jobs whose row was added here go on, so that a flush sent
-- twice, even at the same moment, moves each job once.
CREATE OR REPLACE FUNCTION windlass.finish_others(
    p_worker bigint, p_flush bigint, p_others json, OUT applied bigint, OUT repeated bigint, OUT refused bigint[],
    OUT freed text[])
LANGUAGE plpgsql AS $$
DECLARE
    d        record;
    v_ready  windlass.ready;
    v_reason text;
BEGIN
    applied := 0;
    repeated := 0;
    refused := '{}';
    freed := '{}';
    FOR d IN
        WITH asked AS (
            SELECT *, int8multirange(int8range(seq, seq + 1)) AS seqs FROM json_to_recordset(p_others)
              AS x (id bigint, lane int, claim bigint, seq bigint, kind text, delay float8, type text, message text,
                    traceback text)),
        judged AS MATERIALIZED (
            SELECT a.*, c.segment, u.open, r.ready,
                   windlass.is_wrong(c.worker, c.seqs, p_worker, a.seqs, p_flush)
                   OR c.segment IS NOT NULL AND NOT u.open AND NOT windlass.flushed_in(a.claim, p_flush) @> a.seqs AS wrong,
                   CASE WHEN a.kind <> 'dead' AND EXISTS (SELECT FROM windlass.cancel_request q WHERE q.job = a.id)
                        THEN 'cancelled'
                        WHEN a.kind = 'retry'
                             AND (r.ready).attempt >= coalesce(((r.ready).options ->> 'max_attempts')::int, 5)
                        THEN 'dead'
                        ELSE a.kind END AS final
              FROM asked a
              LEFT JOIN LATERAL (SELECT * FROM windlass.claim x WHERE x.lane = a.lane AND x.id = a.claim LIMIT 1) AS c
                ON true
              LEFT JOIN LATERAL (SELECT y AS ready FROM windlass.ready y WHERE y.lane = a.lane AND y.seq = a.seq LIMIT 1) AS r
                ON true
             CROSS JOIN LATERAL (SELECT NOT isempty(windlass.unfinished(a.claim, a.seqs)) AS open) AS u),
        added AS (
            INSERT INTO windlass.outcome (segment, claim, lane, flush, kind, seqs, n, at)
            SELECT segment, claim, lane, p_flush, final, range_agg(int8range(seq, seq + 1)), count(*), windlass.now()
              FROM judged WHERE segment IS NOT NULL AND NOT wrong AND open
             GROUP BY segment, claim, lane, final
            ON CONFLICT DO NOTHING
            RETURNING claim, kind)
        SELECT j.*, j.open AND a.claim IS NOT NULL AS added
          FROM judged j LEFT JOIN added a ON a.claim = j.claim AND a.kind = j.final
    LOOP
        IF d.wrong THEN
            refused := refused || d.id;
            CONTINUE;
        ELSIF NOT d.added THEN
            repeated := repeated + 1;
            CONTINUE;
        ELSIF (d.ready).lane IS NULL THEN
            -- The row was moved after this transaction's snapshot was taken [rule 7].
            RAISE EXCEPTION 'job % is not visible to this transaction', d.id USING ERRCODE = 'serialization_failure',
                HINT = 'Run the transaction again.';
        END IF;
        applied := applied + 1;
        IF d.type IS NOT NULL THEN
            PERFORM windlass.note_failure(d.id, (d.ready).attempt, d.type, d.message, d.traceback);
        END IF;
        IF d.final IN ('cancelled', 'dead') OR d.delay > 0 THEN
            freed := freed || windlass.drop_passes(
                ARRAY[d.id], CASE WHEN d.final IN ('cancelled', 'dead') THEN 'all' ELSE 'attempt' END, false);
        END IF;
        IF d.final = 'cancelled' THEN
            PERFORM windlass.settle(ARRAY[d.id], ARRAY[d.lane], ARRAY[d.claim], d.final);
        ELSIF d.final = 'dead' THEN
            v_reason := CASE WHEN d.kind = 'retry' THEN 'exhausted' ELSE coalesce(nullif(d.message, ''), 'dead') END;
            PERFORM windlass.bury_job(d.ready, (d.ready).deaths, v_reason);
            PERFORM windlass.settle(ARRAY[d.id], ARRAY[d.lane], ARRAY[d.claim], d.final);
        ELSE
            UPDATE windlass.checkpoint k SET claim = NULL, worker = NULL WHERE k.job = d.id AND k.claim = d.claim;
            v_ready := d.ready;
            v_ready.options := windlass.unknown_since(v_ready.options, d.kind = 'unknown');
            PERFORM windlass.again(v_ready, d.delay, v_ready.attempt + (d.kind = 'retry')::int, v_ready.deaths,
                                   d.kind = 'retry');
        END IF;
    END LOOP;
END $$;
