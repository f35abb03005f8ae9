-- Ends jobs that wait in one lane, as cancelled or deleted: one claim row of worker 0 and one outcome for all of them [rule 13].
-- Answers with those it ended; others have been claimed or moved meanwhile.
-- Callers: the store, with positions from places_of. Lock: ACCESS SHARE on claim, as in finish; then the lane, until the
-- transaction ends: one lane a transaction, so that no two of these meet crosswise.
CREATE OR REPLACE FUNCTION windlass.end_in_lane(p_lane int, p_seqs bigint[], p_kind text) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_jobs bigint[];
BEGIN
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    SELECT array_agg(windlass.job_of(x.ready)) INTO v_jobs
      FROM unnest(windlass.take_ahead(p_lane, p_seqs, p_kind)) AS s (seq)
     CROSS JOIN LATERAL (SELECT r AS ready FROM windlass.ready r WHERE r.lane = p_lane AND r.seq = s.seq OFFSET 0) AS x;
    IF v_jobs IS NULL THEN
        RETURN '{}';
    END IF;
    PERFORM windlass.settle(v_jobs, NULL, NULL, p_kind);
    RETURN v_jobs;
END $$;
