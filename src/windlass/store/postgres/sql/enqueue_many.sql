-- Adds plain jobs to one queue and priority, and answers with their ids in order [E1].
-- Callers: enqueue, the store and every producer adapter. Lock: those of offer.
-- p_judge: see enqueue_one. Plain: no delay, no key that must be looked up. Those with a gate or a fair key on their way go
-- aside, the others into their lane. A queue without a lane takes the way over deferred, due now [rule 11],
-- and so does one on a server that was not adopted yet [S3].
CREATE OR REPLACE FUNCTION windlass.enqueue_many(
    p_queue text, p_priority smallint, p_tasks text[], p_payloads text[], p_options text[] DEFAULT NULL,
    p_judge boolean DEFAULT true)
RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    v_n       int := cardinality(p_payloads);
    v_lane    int;
    v_ids     bigint[];
    v_limited text[];
BEGIN
    IF v_n IS NULL OR v_n = 0 THEN
        RETURN '{}';
    END IF;
    IF p_priority IS NULL OR p_priority NOT BETWEEN 0 AND 3 THEN
        RAISE EXCEPTION 'priority must be urgent, high, normal or low' USING ERRCODE = 'WL005';
    ELSIF coalesce(cardinality(p_tasks), 0) NOT IN (1, v_n) OR cardinality(p_options) <> v_n THEN
        RAISE EXCEPTION 'there are % payloads, % tasks and % options', v_n, coalesce(cardinality(p_tasks), 0),
            coalesce(cardinality(p_options), 0) USING ERRCODE = 'WL005',
            HINT = 'Give one task for all or one for each payload, and options for none or for each.';
    END IF;
    IF p_options IS NOT NULL THEN
        -- Many jobs of one call have the same options: each kind is checked once.
        SELECT array_agg(c.checked ORDER BY u.i) INTO p_options
          FROM unnest(p_options) WITH ORDINALITY AS u (o, i)
          LEFT JOIN (SELECT d.o, windlass.check_options(d.o) AS checked
                       FROM (SELECT DISTINCT x.o FROM unnest(p_options) AS x (o) WHERE x.o IS NOT NULL) AS d OFFSET 0) AS c
            ON c.o = u.o;
    END IF;
    IF cardinality(p_tasks) = 1 THEN
        PERFORM windlass.check_name('task', p_tasks[1]);
    ELSE
        PERFORM windlass.check_name('task', t) FROM (SELECT DISTINCT unnest(p_tasks) AS t) AS d;
    END IF;
    PERFORM windlass.check_payload(p) FROM unnest(p_payloads) AS p
      WHERE p IS NULL OR octet_length(p) > 1048576 OR ascii(p) NOT IN (123, 91) OR position(E'\\u0000' IN p) > 0;
    IF p_judge THEN
        PERFORM windlass.judge_load(p_queue, p_priority, v_n);
    END IF;
    v_lane := windlass.lane_for(p_queue, p_priority);
    v_limited := windlass.limited_tasks(p_tasks);
    IF v_lane IS NOT NULL AND (v_limited <> '{}' OR p_options IS NOT NULL)
       AND EXISTS (SELECT FROM unnest(p_tasks, p_payloads, p_options) AS u (task, payload, options)
                    WHERE windlass.may_be_gated(coalesce(u.task, p_tasks[1]), u.options, v_limited)) THEN
        RETURN windlass.enqueue_gated(p_queue, p_priority, v_lane, p_tasks, p_payloads, p_options, v_limited);
    ELSIF v_lane IS NOT NULL AND v_n = 1 THEN
        RETURN ARRAY[v_lane::bigint << 44 | (windlass.offer(v_lane, v_n, p_tasks, p_payloads, p_options))[1]];
    ELSIF v_lane IS NOT NULL THEN
        SELECT array_agg(v_lane::bigint << 44 | s) INTO v_ids
          FROM unnest(windlass.offer(v_lane, v_n, p_tasks, p_payloads, p_options)) AS s;
        RETURN v_ids;
    END IF;
    PERFORM windlass.check_name('queue', p_queue);
    IF NOT EXISTS (SELECT FROM windlass.epoch_mark e WHERE e.place = 'windlass.epoch_mark'::regclass::oid::bigint) THEN
        PERFORM windlass.skip_ids();
    END IF;
    WITH added AS (
        INSERT INTO windlass.deferred (id, run_at, enqueued_at, queue, priority, task, payload, options)
        SELECT nextval('windlass.job_id'), windlass.now(), windlass.now(), p_queue, p_priority,
               coalesce(u.task, p_tasks[1]), u.payload::json, u.options::json
          FROM unnest(p_tasks, p_payloads, p_options) WITH ORDINALITY AS u (task, payload, options, i)
         ORDER BY u.i
        RETURNING id)
    SELECT array_agg(id ORDER BY id) INTO v_ids FROM added;
    RETURN v_ids;
END $$;
