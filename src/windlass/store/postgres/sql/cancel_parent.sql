-- Stops the releases of a parent and cancels those of its parts that are out [P9]: 'requested', or 'finished' where it
-- has ended. NULL: there is no such parent. Callers: cancel, delete. Lock: the parent's row, those of parts that are
-- parents themselves, from the top down, then the lanes of all other parts, in order. Nobody takes a parent's row who
-- holds a lane, so that no two of these meet crosswise.
CREATE OR REPLACE FUNCTION windlass.cancel_parent(p_parent bigint) RETURNS text
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_parents bigint[] := ARRAY[p_parent];
    v_jobs    bigint[] := '{}';
    v_state   text;
    v_job     bigint;
    i         int := 1;
BEGIN
    WHILE i <= cardinality(v_parents) LOOP
        SELECT p.state INTO v_state FROM windlass.parent p WHERE p.id = v_parents[i] FOR UPDATE;
        IF i = 1 AND v_state IS DISTINCT FROM 'waiting' THEN
            RETURN CASE WHEN v_state IS NOT NULL THEN 'finished' END;
        END IF;
        UPDATE windlass.parent p SET cancelling = true WHERE p.id = v_parents[i] AND p.state = 'waiting';
        DELETE FROM windlass.cancel_request q WHERE q.job = v_parents[i];
        FOR v_job IN SELECT t.job FROM windlass.part t
                      WHERE t.parent = v_parents[i] AND t.state <> 'succeeded' AND t.job IS NOT NULL AND t.state = 'out' LOOP
            IF EXISTS (SELECT FROM windlass.parent p WHERE p.id = v_job) THEN
                v_parents := v_parents || v_job;
            ELSE
                v_jobs := v_jobs || v_job;
            END IF;
        END LOOP;
        i := i + 1;
    END LOOP;
    PERFORM windlass.lock_lanes_of(v_jobs);
    PERFORM windlass.cancel_job(u.job) FROM unnest(v_jobs) AS u (job);
    FOR i IN REVERSE cardinality(v_parents)..1 LOOP
        PERFORM windlass.advance(v_parents[i]);
    END LOOP;
    RETURN 'requested';
END $$;
