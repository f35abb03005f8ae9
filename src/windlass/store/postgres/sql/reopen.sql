-- Makes a parent wait for its parts again, with its unique key. Answers with NULL, or with the job that holds its key by
-- now: then nothing was changed. A finalizer that did not succeed will run anew, unless it is the one that is brought
-- back. Where one job is (p_but), the others stay where a cancel has left them; else no wish to cancel is left over. Callers: redrive_parts, reopen_for. Lock: the parent's row, held by the caller;
-- the key's row.
CREATE OR REPLACE FUNCTION windlass.reopen(p_parent bigint, p_but bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    p        windlass.parent;
    v_key    text;
    v_holder bigint;
BEGIN
    SELECT * INTO p FROM windlass.parent x WHERE x.id = p_parent;
    v_key := p.options ->> 'unique_key';
    WHILE p.state <> 'waiting' AND v_key IS NOT NULL LOOP
        INSERT INTO windlass.unique_key (key, job) VALUES (v_key, p.id) ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND;
        SELECT u.job INTO v_holder FROM windlass.unique_key u WHERE u.key = v_key;
        IF v_holder = p.id THEN
            -- Its end could not free the key yet: see settle.
            DELETE FROM windlass.unsettled u WHERE u.job = p.id;
            EXIT;
        ELSIF v_holder IS NOT NULL THEN
            RETURN v_holder;
        END IF;
    END LOOP;
    IF p.final_state IN ('dead', 'cancelled') AND p.final IS DISTINCT FROM p_but THEN
        DELETE FROM windlass.dead d WHERE d.id = p.final;
        DELETE FROM windlass.part t WHERE t.parent = p.id AND t.index = -1;
        UPDATE windlass.parent x SET final = NULL, final_state = NULL WHERE x.id = p.id;
    END IF;
    DELETE FROM windlass.cancel_request q WHERE q.job = p.id;
    DELETE FROM windlass.ended_otherwise o WHERE o.job = p.id;
    UPDATE windlass.parent x
       SET state = 'waiting', cancelling = x.cancelling AND p_but IS NOT NULL, finished_at = NULL, reason = NULL
     WHERE x.id = p.id;
    RETURN NULL;
END $$;
