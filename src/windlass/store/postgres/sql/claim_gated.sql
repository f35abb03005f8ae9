-- Looks at the jobs of a claim whose task has got a limit since they stood in their lane [F3]: those for whom there is room get
-- their pass, the others go aside to its line. Answers with the jobs that stay. Callers: claim, after claim_take, where some task
-- has a limit by setting; claim_recheck. Lock: the gates, by trying only; the caller holds the lane, or has committed the claim.
CREATE OR REPLACE FUNCTION windlass.claim_gated(
    p_lane int, p_claim bigint,
    INOUT seqs bigint[], INOUT ids bigint[], INOUT tasks text[], INOUT payloads text[], INOUT options text[],
    INOUT attempts smallint[], INOUT deaths smallint[], INOUT enqueued float8[], INOUT offered float8[])
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    g       record;
    v_tasks text[] := windlass.limited_tasks(tasks);
    v_room  bigint;
    v_aside int[] := '{}';
    v_jobs  bigint[];
    v_gates text[];
BEGIN
    IF v_tasks = '{}' THEN
        RETURN;
    END IF;
    v_jobs := ARRAY(SELECT coalesce(u.id, p_lane::bigint << 44 | u.seq)
                      FROM unnest(seqs, ids) WITH ORDINALITY AS u (seq, id, i) ORDER BY u.i);
    FOR g IN SELECT 'task:' || u.task AS gate, u.task, array_agg(u.i::int ORDER BY u.i) AS places
               FROM unnest(tasks) WITH ORDINALITY AS u (task, i)
              WHERE u.task = ANY (v_tasks)
                AND NOT EXISTS (SELECT FROM windlass.pass p WHERE p.job = v_jobs[u.i] AND p.gate = 'task:' || u.task OFFSET 0)
              GROUP BY u.task ORDER BY u.task COLLATE "C" LOOP
        v_room := 0;
        IF windlass.gate_lock(g.gate, 0) THEN
            -- Whoever counted what runs may have committed since the passes were looked at.
            g.places := ARRAY(SELECT u FROM unnest(g.places) AS u
                               WHERE NOT EXISTS (SELECT FROM windlass.pass p WHERE p.job = v_jobs[u] AND p.gate = g.gate OFFSET 0) ORDER BY u);
            IF NOT EXISTS (SELECT FROM windlass.held h WHERE h.gate = g.gate) THEN
                PERFORM windlass.count_running(g.task, p_claim);
                v_room := greatest((SELECT t.concurrency FROM windlass.task_setting t WHERE t.name = g.task)
                                   - (SELECT count(*) FROM windlass.pass p WHERE p.gate = g.gate), 0);
            END IF;
        END IF;
        INSERT INTO windlass.pass (gate, job, need, turn, enqueued_at, at)
        SELECT g.gate, v_jobs[u.place], 1, nextval('windlass.held_turn'), to_timestamp(enqueued[u.place]), windlass.now()
          FROM unnest(g.places) WITH ORDINALITY AS u (place, no) WHERE u.no <= v_room;
        v_aside := v_aside || g.places[least(v_room, 2147483646)::int + 1:];
    END LOOP;
    IF v_aside <> '{}' THEN
        v_aside := ARRAY(SELECT a FROM unnest(v_aside) AS a ORDER BY a);
        v_gates := ARRAY(SELECT 'task:' || tasks[a.place] FROM unnest(v_aside) WITH ORDINALITY AS a (place, i) ORDER BY a.i);
        PERFORM windlass.claim_aside(
            p_lane, p_claim, ARRAY(SELECT seqs[a.place] FROM unnest(v_aside) WITH ORDINALITY AS a (place, i) ORDER BY a.i),
            ARRAY(SELECT v_jobs[a.place] FROM unnest(v_aside) WITH ORDINALITY AS a (place, i) ORDER BY a.i), v_gates,
            array_fill(1, ARRAY[cardinality(v_aside)]));
        SELECT * INTO seqs, ids, tasks, payloads, options, attempts, deaths, enqueued, offered
          FROM windlass.claim_without(v_aside, seqs, ids, tasks, payloads, options, attempts, deaths, enqueued, offered);
    END IF;
END $$;
