-- retry for many jobs at once: those it offered again. It takes only what needs no more than that: dead, scheduled and
-- retrying jobs that are no part, hold no place of another's key and have no gate before them. The rest is for retry.
-- Callers: the store. Lock: the rows it moves, by trying only, so that two who do this never wait for each other; those of
-- offer.
-- Each lane gets its jobs in one go, in the order given, with all its numbers drawn before the first row [rule 3].
CREATE OR REPLACE FUNCTION windlass.retry_many(p_jobs bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    v_now     timestamptz := windlass.now();
    v_limited text[] := windlass.limited_tasks(NULL);
    v_segment smallint;
    v_plain   bigint[];
    v_ids     bigint[];
    v_dead    windlass.dead[];
    v_rows    windlass.held[];
BEGIN
    PERFORM windlass.require_read_committed();
    v_plain := ARRAY(SELECT u.id FROM unnest(p_jobs) AS u (id)
                      WHERE NOT EXISTS (SELECT FROM windlass.part t WHERE t.job = u.id OFFSET 0)
                        AND NOT EXISTS (SELECT FROM windlass.parent p WHERE p.id = u.id OFFSET 0));
    v_ids := ARRAY(SELECT d.id FROM windlass.dead d
                    WHERE d.id = ANY (v_plain) AND d.options ->> 'unique_key' IS NULL
                      AND (NOT windlass.may_be_gated(d.task, d.options::text, v_limited)
                           OR windlass.next_gate(d.id, d.queue, d.task, d.options) IS NULL)
                      FOR UPDATE SKIP LOCKED);
    WITH gone AS (DELETE FROM windlass.dead d WHERE d.id = ANY (v_ids) RETURNING d.*)
    SELECT array_agg(ROW (gone.*)::windlass.dead) INTO v_dead FROM gone;
    IF v_dead IS NOT NULL THEN
        DELETE FROM windlass.ended_otherwise o WHERE o.job = ANY (v_ids);
        v_segment := windlass.pin_segment();
        INSERT INTO windlass.failure (segment, job, at, attempt, type, message, traceback)
        SELECT v_segment, d.id, to_timestamp((e ->> 'at')::float8), (e ->> 'attempt')::smallint,
               e ->> 'type', e ->> 'message', e ->> 'traceback'
          FROM unnest(v_dead) AS d CROSS JOIN LATERAL json_array_elements(d.errors) AS e
         WHERE NOT EXISTS (SELECT FROM windlass.failure f WHERE f.job = d.id OFFSET 0);
        v_rows := ARRAY(SELECT ROW (d.id, 0, v_now, d.enqueued_at, d.priority, 1, 0, d.queue, NULL, d.task, d.payload,
                                    windlass.unknown_since(d.options, false), NULL, 1)::windlass.held FROM unnest(v_dead) AS d);
    END IF;
    v_ids := ARRAY(SELECT w.id FROM windlass.deferred w
                    WHERE w.id = ANY (v_plain) AND w.replaces IS NULL
                      AND (NOT windlass.may_be_gated(w.task, w.options::text, v_limited)
                           OR windlass.next_gate(w.id, w.queue, w.task, w.options) IS NULL)
                      FOR UPDATE SKIP LOCKED);
    WITH gone AS (DELETE FROM windlass.deferred w WHERE w.id = ANY (v_ids) RETURNING w.*)
    SELECT v_rows || array_agg(ROW (w.id, 0, v_now, w.enqueued_at, w.priority, CASE WHEN w.retrying THEN 1 ELSE w.attempt END,
                                    w.deaths, w.queue, NULL, w.task, w.payload, w.options, NULL, 1)::windlass.held)
      INTO v_rows FROM gone AS w;
    IF v_rows IS NULL THEN
        RETURN '{}';
    END IF;
    PERFORM windlass.offer_held(array_agg(u ORDER BY array_position(p_jobs, u.id))) FROM unnest(v_rows) AS u;
    RETURN ARRAY(SELECT u.id FROM unnest(v_rows) AS u);
END $$;
