-- Removes jobs that have ended for good from the ready log, by their positions, and answers with them; what a rotation has
-- moved at this moment is left. Callers: the store, with positions from places_of. Lock: the rows it removes.
-- No claim will ever look at these rows again. One statement for each: joined, the planner may walk a lane [rule 8].
CREATE OR REPLACE FUNCTION windlass.delete_ended(p_lanes int[], p_seqs bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_job  bigint;
    v_jobs bigint[] := '{}';
BEGIN
    FOR i IN 1..coalesce(cardinality(p_seqs), 0) LOOP
        DELETE FROM windlass.ready r WHERE r.lane = p_lanes[i] AND r.seq = p_seqs[i] RETURNING windlass.job_of(r) INTO v_job;
        IF FOUND THEN
            v_jobs := v_jobs || v_job;
        END IF;
    END LOOP;
    RETURN v_jobs;
END $$;
