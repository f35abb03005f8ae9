-- Clears what hangs on jobs that have ended for good: checkpoint, cancel request, unique key, passes of gates; tells their parents, and notes
-- those that did not succeed, for whoever comes after them [P12].
-- Callers: every function that ends jobs, with how they ended. Lock: the rows of unique_key, by trying only; none of a
-- parent (see note_ends).
-- p_claims and p_lanes name the claim each job ended in, or NULL where it ended waiting; p_snapshot is that claim's, where
-- the caller has kept it. A key that a producer's transaction holds is left to settle_rest: no worker waits for a
-- producer. A part that did not succeed keeps its checkpoint, for its redrive [P9].
CREATE OR REPLACE FUNCTION windlass.settle(
    p_jobs bigint[], p_lanes int[], p_claims bigint[], p_kind text, p_snapshot pg_snapshot DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
DECLARE
    u record;
BEGIN
    PERFORM windlass.drop_passes(p_jobs, 'all', true);
    IF EXISTS (SELECT FROM windlass.part WHERE job = ANY (p_jobs)) THEN
        PERFORM windlass.note_ends(p_jobs, p_kind);
        DELETE FROM windlass.checkpoint k
         WHERE k.job = ANY (p_jobs)
           AND (p_kind = 'succeeded' OR NOT EXISTS (SELECT FROM windlass.part t WHERE t.job = k.job AND t.index >= 0));
        UPDATE windlass.checkpoint k SET claim = NULL, worker = NULL
         WHERE k.job = ANY (p_jobs) AND k.claim IS NOT NULL;
    ELSE
        DELETE FROM windlass.checkpoint WHERE job = ANY (p_jobs);
    END IF;
    IF p_kind <> 'succeeded' THEN
        INSERT INTO windlass.ended_otherwise (job, at, kind)
        SELECT a, windlass.now(), p_kind FROM unnest(p_jobs) AS a ON CONFLICT DO NOTHING;
    END IF;
    DELETE FROM windlass.cancel_request WHERE job = ANY (p_jobs);
    IF NOT EXISTS (SELECT FROM windlass.unique_key WHERE job = ANY (p_jobs)) THEN
        RETURN;
    END IF;
    FOR u IN SELECT a.job, k.key, coalesce(p_snapshot, c.snapshot) AS snapshot
               FROM unnest(p_jobs, p_lanes, p_claims) AS a (job, lane, claim)
               JOIN windlass.unique_key k ON k.job = a.job
               LEFT JOIN LATERAL (SELECT x.snapshot FROM windlass.claim x WHERE x.lane = a.lane AND x.id = a.claim) AS c
                 ON true LOOP
        PERFORM windlass.count_death(u.key, p_kind);
        IF NOT windlass.free_key(u.job, u.snapshot) THEN
            INSERT INTO windlass.unsettled (job, snapshot) VALUES (u.job, u.snapshot) ON CONFLICT DO NOTHING;
        END IF;
    END LOOP;
END $$;
