-- Records how claimed attempts ended: one row per claim for those that succeeded, the rest through
-- finish_others. Callers: the store, also inside a handler's own transaction. Lock: the worker's life row FOR
-- SHARE, or FOR NO KEY UPDATE where an attempt did not simply succeed (see worker_alone); ACCESS SHARE on claim first, so
-- that the snapshot that finds a claim's segment is younger than any rotation that moved it. The outcome row is inserted by the statement that finds that segment [rule 7].
-- Unique (claim, flush, kind): sending a flush again adds nothing and counts as repeated. So does one whose claim is
-- gone, if its number was seen when that segment was reclaimed. What ended in another flush is refused. `freed`: gates at
-- which somebody waits for the room that was made, for the caller to let in by admit_gates. p_histograms is what workers of
-- older versions send, and nothing is made of it: run times come with `tell`.
CREATE OR REPLACE FUNCTION windlass.finish(
    p_worker bigint, p_flush bigint,
    p_lanes int[], p_claims bigint[], p_seqs text[], p_ns int[], p_histograms text[],
    p_jobs bigint[], p_job_claims bigint[], p_job_lanes int[], p_job_seqs bigint[], p_results text[],
    p_others json, p_forgets boolean[] DEFAULT NULL,
    OUT applied bigint, OUT repeated bigint, OUT refused_claims bigint[],
    OUT refused_seqs text[], OUT refused_jobs bigint[], OUT freed text[])
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    o       record;
    v_added bigint[];
    v_added_seqs text[];
    v_asked bigint;
    v_wrong bigint;
BEGIN
    IF p_others IS NULL OR NOT windlass.worker_alone(p_worker) THEN
        PERFORM windlass.worker_fence(p_worker);
    END IF;
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    applied := 0;
    repeated := 0;
    freed := '{}';
    IF p_claims IS NOT NULL THEN
        WITH asked AS (
            SELECT u.lane, u.claim, u.seqs::int8multirange AS seqs, u.n
              FROM unnest(p_lanes, p_claims, p_seqs, p_ns) AS u (lane, claim, seqs, n)),
        judged AS MATERIALIZED (
            SELECT a.*, c.segment, s.wrong, CASE WHEN s.wrong THEN '{}' ELSE u.left_over END AS left_over,
                   CASE WHEN s.wrong THEN a.seqs WHEN u.left_over <> a.seqs AND c.segment IS NOT NULL
                        THEN a.seqs - u.left_over - windlass.flushed_in(a.claim, p_flush) END AS refused
              FROM asked a
              LEFT JOIN LATERAL (SELECT * FROM windlass.claim x WHERE x.lane = a.lane AND x.id = a.claim LIMIT 1) AS c
                ON true
             CROSS JOIN LATERAL (SELECT windlass.is_wrong(c.worker, c.seqs, p_worker, a.seqs, p_flush) AS wrong) AS s
             CROSS JOIN LATERAL (SELECT windlass.unfinished(a.claim, a.seqs) AS left_over) AS u),
        added AS (
            INSERT INTO windlass.outcome (segment, claim, lane, flush, kind, seqs, n, at)
            SELECT segment, claim, lane, p_flush, 'succeeded', left_over,
                   CASE WHEN left_over = seqs THEN n ELSE windlass.size_of(left_over) END, windlass.now()
              FROM judged WHERE segment IS NOT NULL AND NOT isempty(left_over)
            ON CONFLICT DO NOTHING
            RETURNING claim, n, seqs)
        SELECT (SELECT coalesce(sum(n), 0) FROM added), (SELECT array_agg(claim) FROM added),
               (SELECT array_agg(seqs::text) FROM added),
               sum(j.n), coalesce(sum(windlass.size_of(j.refused)) FILTER (WHERE j.refused IS NOT NULL), 0),
               array_agg(j.claim) FILTER (WHERE NOT isempty(j.refused)),
               array_agg(j.refused::text) FILTER (WHERE NOT isempty(j.refused))
          INTO applied, v_added, v_added_seqs, v_asked, v_wrong, refused_claims, refused_seqs
          FROM judged j;
        repeated := v_asked - applied - v_wrong;
        -- Jobs that were claimed before their task got a limit hold a pass, though nobody told the worker.
        IF EXISTS (SELECT FROM windlass.pass p WHERE p.job >= 1::bigint << 44) THEN
            freed := windlass.drop_passes(
                ARRAY(SELECT p.job
                        FROM unnest(p_claims, p_lanes) AS c (claim, lane)
                        JOIN unnest(v_added, v_added_seqs) AS a (claim, seqs) ON a.claim = c.claim
                       CROSS JOIN LATERAL unnest(a.seqs::int8multirange) AS s (span)
                        JOIN windlass.pass p ON p.job >= (c.lane::bigint << 44 | lower(s.span))
                                            AND p.job < (c.lane::bigint << 44 | upper(s.span))), 'all', false);
        END IF;
        IF p_jobs IS NOT NULL THEN
            INSERT INTO windlass.result (segment, job, at, result)
            SELECT windlass.pin_segment(), u.job, windlass.now(), u.result::json
              FROM unnest(p_jobs, p_job_claims, p_job_seqs, p_results) AS u (job, claim, seq, result)
              JOIN unnest(v_added, v_added_seqs) AS a (claim, seqs)
                ON a.claim = u.claim AND a.seqs::int8multirange @> u.seq
             WHERE u.result IS NOT NULL;
            IF p_forgets IS NOT NULL THEN
                PERFORM windlass.note_failure(u.job, 0, '', '', '')
                   FROM unnest(p_jobs, p_job_claims, p_job_seqs, p_forgets) AS u (job, claim, seq, forget)
                   JOIN unnest(v_added, v_added_seqs) AS a (claim, seqs)
                     ON a.claim = u.claim AND a.seqs::int8multirange @> u.seq
                  WHERE u.forget;
            END IF;
            -- The caller lets the next ones in.
            SELECT freed || windlass.drop_passes(array_agg(u.job), 'all', false) INTO freed
              FROM unnest(p_jobs, p_job_claims, p_job_seqs) AS u (job, claim, seq)
              JOIN unnest(v_added, v_added_seqs) AS a (claim, seqs)
                ON a.claim = u.claim AND a.seqs::int8multirange @> u.seq;
            PERFORM windlass.settle(array_agg(u.job), array_agg(u.lane), array_agg(u.claim), 'succeeded')
               FROM unnest(p_jobs, p_job_claims, p_job_lanes, p_job_seqs) AS u (job, claim, lane, seq)
               JOIN unnest(v_added, v_added_seqs) AS a (claim, seqs)
                 ON a.claim = u.claim AND a.seqs::int8multirange @> u.seq
             HAVING count(*) > 0;
        END IF;
    END IF;
    IF p_others IS NOT NULL THEN
        SELECT * INTO o FROM windlass.finish_others(p_worker, p_flush, p_others);
        applied := applied + o.applied;
        repeated := repeated + o.repeated;
        refused_jobs := o.refused;
        freed := freed || o.freed;
    END IF;
    IF (p_jobs IS NOT NULL OR p_others IS NOT NULL) AND pg_sequence_last_value('windlass.awaited'::regclass) = 1 THEN
        PERFORM windlass.wake('!');
    END IF;
END $$;
