-- Looks at the jobs of a claim once more when it is committed, before they are given out: a task may have got its limit while
-- the claim was under way, and whoever counted then did not see it [F3]. Who counts later does. Answers with the jobs that stay;
-- those for whom there is no room go aside, as in claim_gated. Callers: claim, in a transaction of its own. Lock: mostly none;
-- else the worker's life row, as claim_take, for its jobs may be others' by now; ACCESS SHARE on claim, as in finish; those of
-- claim_gated.
CREATE OR REPLACE FUNCTION windlass.claim_recheck(
    p_lane int, p_worker bigint, p_claim bigint,
    INOUT seqs bigint[], INOUT ids bigint[], INOUT tasks text[], INOUT payloads text[], INOUT options text[],
    INOUT attempts smallint[], INOUT deaths smallint[], INOUT enqueued float8[], INOUT offered float8[])
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_tasks text[] := windlass.limited_tasks(tasks);
    v_n     int := cardinality(seqs);
BEGIN
    IF v_tasks = '{}'
       OR NOT EXISTS (SELECT FROM unnest(seqs, ids, tasks) AS u (seq, id, task)
                       WHERE u.task = ANY (v_tasks)
                         AND NOT EXISTS (SELECT FROM windlass.pass p WHERE p.job = coalesce(u.id, p_lane::bigint << 44 | u.seq)
                                                                       AND p.gate = 'task:' || u.task OFFSET 0)) THEN
        RETURN;
    END IF;
    PERFORM windlass.worker_fence(p_worker);
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    SELECT * INTO seqs, ids, tasks, payloads, options, attempts, deaths, enqueued, offered
      FROM windlass.claim_gated(p_lane, p_claim, seqs, ids, tasks, payloads, options, attempts, deaths, enqueued, offered);
    IF seqs IS NULL OR cardinality(seqs) < v_n THEN
        -- Somebody may count at this moment, and give those their passes who went aside.
        INSERT INTO windlass.uncounted_task (task) SELECT unnest(v_tasks);
    END IF;
END $$;
