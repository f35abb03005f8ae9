-- Adds jobs of which some have a gate or a fair key on their way: those go aside, the others into their lane. Answers with their
-- ids, in order. Callers: enqueue_many, which has checked them. Lock: those of offer; no producer waits for another's gate.
CREATE OR REPLACE FUNCTION windlass.enqueue_gated(
    p_queue text, p_priority smallint, p_lane int, p_tasks text[], p_payloads text[], p_options text[], p_limited text[])
RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    v_now   timestamptz := windlass.now();
    v_gates text[];
    v_aside boolean[];
    v_ids   bigint[];
    v_seqs  bigint[];
BEGIN
    SELECT array_agg(x.gate ORDER BY x.i), array_agg(x.gate IS NOT NULL OR x.fair IS NOT NULL ORDER BY x.i)
      INTO v_gates, v_aside
      FROM (SELECT u.i, u.options ->> 'fair_key' AS fair,
                   windlass.first_gate(p_queue, u.task, u.options, u.task = ANY (p_limited)) AS gate
              FROM (SELECT coalesce(y.task, p_tasks[1]) AS task, y.options::json AS options, y.i
                      FROM unnest(p_tasks, p_payloads, p_options) WITH ORDINALITY AS y (task, payload, options, i)
                    OFFSET 0) AS u) AS x;
    IF true = ANY (v_aside) THEN
        PERFORM windlass.stir_gates(ARRAY(SELECT DISTINCT u.gate FROM unnest(v_gates, v_aside) AS u (gate, aside) WHERE u.aside));
    END IF;
    IF false = ANY (v_aside) THEN
        SELECT windlass.offer(p_lane, count(*)::int, array_agg(coalesce(u.task, p_tasks[1]) ORDER BY u.i),
                              array_agg(u.payload ORDER BY u.i), array_agg(u.options ORDER BY u.i)) INTO v_seqs
          FROM unnest(p_tasks, p_payloads, p_options, v_aside) WITH ORDINALITY AS u (task, payload, options, aside, i)
         WHERE NOT u.aside;
    END IF;
    SELECT array_agg(CASE WHEN p.aside THEN nextval('windlass.job_id') ELSE p_lane::bigint << 44 | v_seqs[p.place] END ORDER BY p.i)
      INTO v_ids
      FROM (SELECT u.i, u.aside, count(*) FILTER (WHERE NOT u.aside) OVER (ORDER BY u.i) AS place
              FROM unnest(v_aside) WITH ORDINALITY AS u (aside, i) ORDER BY u.i) AS p;
    INSERT INTO windlass.held (id, since, enqueued_at, queue, priority, gate, fair_key, task, payload, options)
    SELECT u.id, v_now, v_now, p_queue, p_priority, u.gate,
           CASE WHEN u.gate IS NULL THEN u.options::json ->> 'fair_key' END, coalesce(u.task, p_tasks[1]), u.payload::json,
           u.options::json
      FROM unnest(v_ids, p_tasks, p_payloads, p_options, v_gates, v_aside) WITH ORDINALITY
        AS u (id, task, payload, options, gate, aside, i)
     WHERE u.aside ORDER BY u.i;
    RETURN v_ids;
END $$;
