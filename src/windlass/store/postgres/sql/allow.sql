-- Gives an existing role what it needs to be a 'worker', 'producer' or 'reader', and nothing else [rule 11].
-- Callers: the owner. Lock: catalog rows. A worker may do what a producer and a reader may.
CREATE OR REPLACE FUNCTION windlass.allow(p_role text, p_kind text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    f record;
BEGIN
    IF p_kind NOT IN ('worker', 'producer', 'reader') THEN
        RAISE EXCEPTION 'unknown kind of role %', quote_literal(p_kind) USING ERRCODE = 'WL005',
            HINT = 'Use worker, producer or reader.';
    END IF;
    INSERT INTO windlass.allowed (role, kind) VALUES (p_role, p_kind) ON CONFLICT DO NOTHING;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', 'windlass', p_role);
    IF p_kind IN ('worker', 'reader') THEN
        EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO %I', 'windlass', p_role);
        EXECUTE format('GRANT SELECT ON ALL SEQUENCES IN SCHEMA %I TO %I', 'windlass', p_role);
    END IF;
    FOR f IN SELECT p.oid::regprocedure AS signature, p.prokind, p.proname FROM pg_proc p
              WHERE p.pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'windlass.meta'::regclass) LOOP
        IF f.proname = 'schema_version'
           OR f.proname IN ('enqueue', 'enqueue_many', 'enqueue_mixed', 'enqueue_one', 'judge_call', 'line_up', 'pressure_of',
                            'note_refused', 'change_pressure', 'take_tokens', 'give_tokens')
              AND p_kind IN ('worker', 'producer')
           OR f.proname IN ('depth', 'offered', 'locate', 'place_claim', 'place_outcome', 'unfinished', 'job_of', 'enqueued_of', 'now', 'failures_of',
                            'size_of', 'gather', 'cursor_of', 'lane_depth', 'lane_head', 'lane_heads', 'segment_bytes', 'cools',
                            'put_off_for', 'shown_as', 'standing_of', 'records_of', 'epoch', 'bucket_at', 'bucket_of',
                            'breaker_state', 'breaker_left', 'breaker_length', 'flow_of', 'gate_reason', 'in_quotes', 'next_lines', 'list_spans', 'list_lanes', 'list_claims',
                            'list_judged', 'list_aside', 'list_found', 'list_causes', 'list_gates', 'list_watermarks',
                            'list_parents', 'saved_of', 'task_depths')
              AND p_kind IN ('worker', 'reader')
           OR p_kind = 'worker' AND f.proname NOT IN ('allow', 'stamp') THEN
            EXECUTE format('GRANT EXECUTE ON %s %s TO %I', CASE f.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END,
                           f.signature, p_role);
        END IF;
    END LOOP;
END $$;
