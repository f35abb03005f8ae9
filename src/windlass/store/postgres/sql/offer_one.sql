-- Offers one job now: at the end of the line of the first gate that it has no pass of, or at the back of its lane.
-- Callers: retry. Lock: those of offer.
CREATE OR REPLACE FUNCTION windlass.offer_one(
    p_queue text, p_priority smallint, p_task text, p_payload json, p_options json, p_job bigint, p_attempt smallint,
    p_deaths smallint, p_enqueued timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_gate text := windlass.next_gate(p_job, p_queue, p_task, p_options);
BEGIN
    IF v_gate IS NULL THEN
        PERFORM windlass.offer(windlass.lane_sure(p_queue, p_priority), 1, ARRAY[p_task], ARRAY[p_payload::text],
                               ARRAY[p_options::text], ARRAY[p_job], ARRAY[p_attempt], ARRAY[p_deaths], ARRAY[p_enqueued]);
        RETURN;
    END IF;
    PERFORM windlass.stir_gates(ARRAY[v_gate]);
    INSERT INTO windlass.held (id, since, enqueued_at, queue, priority, attempt, deaths, gate, task, payload, options)
    VALUES (p_job, windlass.now(), p_enqueued, p_queue, p_priority, p_attempt, p_deaths, v_gate, p_task, p_payload, p_options);
END $$;
