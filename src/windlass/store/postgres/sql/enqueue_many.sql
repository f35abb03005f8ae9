-- Adds plain jobs to one queue and priority, and answers with their ids in order [E1].
-- Callers: the store and every producer adapter. Lock: those of offer.
-- Plain: no delay, no keys. A queue without a lane takes the way over deferred, due now [rule 11].
CREATE OR REPLACE FUNCTION windlass.enqueue_many(
    p_queue text, p_priority smallint, p_tasks text[], p_payloads text[], p_options text[] DEFAULT NULL)
RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_n    int := cardinality(p_payloads);
    v_lane int;
    v_ids  bigint[];
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
        SELECT array_agg(CASE WHEN u.o IS NOT NULL THEN windlass.check_options(u.o) END ORDER BY u.i) INTO p_options
          FROM unnest(p_options) WITH ORDINALITY AS u (o, i);
    END IF;
    PERFORM windlass.check_name('task', t) FROM (SELECT DISTINCT unnest(p_tasks) AS t) AS d;
    PERFORM windlass.check_payload(p) FROM unnest(p_payloads) AS p
      WHERE p IS NULL OR octet_length(p) > 1048576 OR ascii(p) NOT IN (123, 91) OR position('\u0000' IN p) > 0;
    v_lane := windlass.lane_for(p_queue, p_priority);
    IF v_lane IS NOT NULL THEN
        SELECT array_agg(v_lane::bigint << 44 | s) INTO v_ids
          FROM unnest(windlass.offer(v_lane, v_n, p_tasks, p_payloads, p_options)) AS s;
        RETURN v_ids;
    END IF;
    PERFORM windlass.check_name('queue', p_queue);
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
