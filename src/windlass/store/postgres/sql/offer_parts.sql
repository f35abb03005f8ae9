-- Puts the jobs of parts where jobs of their parent's queue and priority wait, and answers with their ids, in order.
-- Callers: release, release_final. Lock: those of offer. Gates and fair keys are honoured as in enqueue_one; the ordering key
-- is the parent's alone.
CREATE OR REPLACE FUNCTION windlass.offer_parts(p windlass.parent, p_options text[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    v_fair text := p.options ->> 'fair_key';
    v_gate text := windlass.next_gate(NULL, p.queue, p.task, p_options[1]::json);
    v_lane int := windlass.lane_sure(p.queue, p.priority);
    v_now  timestamptz := windlass.now();
    v_ids  bigint[];
BEGIN
    IF v_gate IS NULL AND v_fair IS NULL THEN
        SELECT array_agg(v_lane::bigint << 44 | u.seq ORDER BY u.i) INTO v_ids
          FROM unnest(windlass.offer(v_lane, cardinality(p_options), ARRAY[p.task],
                                     array_fill(p.payload::text, ARRAY[cardinality(p_options)]), p_options))
               WITH ORDINALITY AS u (seq, i);
        RETURN v_ids;
    END IF;
    SELECT array_agg(nextval('windlass.job_id')) INTO v_ids FROM unnest(p_options);
    PERFORM windlass.stir_gates(ARRAY[v_gate]);
    INSERT INTO windlass.held (id, since, enqueued_at, queue, priority, gate, fair_key, task, payload, options)
    SELECT u.id, v_now, v_now, p.queue, p.priority, v_gate, CASE WHEN v_gate IS NULL THEN v_fair END, p.task, p.payload,
           u.options::json
      FROM unnest(v_ids, p_options) AS u (id, options) ORDER BY u.id;
    RETURN v_ids;
END $$;
