-- Folds the ends of parts that were noted into their parent, and forgets the notes. Callers: advance. Lock: the parent's
-- row, held by the caller. The end of a job that is not the part's present one has nothing to say.
CREATE OR REPLACE FUNCTION windlass.fold(p_parent bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    e       windlass.part_event;
    v_size  bigint;
    v_state text;
BEGIN
    FOR e IN DELETE FROM windlass.part_event x WHERE x.parent = p_parent RETURNING x.* LOOP
        v_state := CASE WHEN e.kind IN ('succeeded', 'dead') THEN e.kind ELSE 'cancelled' END;
        UPDATE windlass.part t
           SET state = v_state, attempt = e.attempt, error = e.error,
               records = CASE WHEN v_state = 'succeeded' THEN e.records ELSE 0 END
         WHERE t.parent = p_parent AND t.index = e.index AND t.job = e.job AND t.state = 'out'
        RETURNING t.size INTO v_size;
        CONTINUE WHEN NOT FOUND;
        IF e.index < 0 THEN
            UPDATE windlass.parent p
               SET final_state = v_state,
                   result = (SELECT r.result FROM windlass.result r
                              WHERE r.job = e.job AND v_state = 'succeeded' ORDER BY r.at DESC LIMIT 1)
             WHERE p.id = p_parent;
        ELSE
            UPDATE windlass.parent p
               SET out = p.out - 1, succeeded = p.succeeded + (v_state = 'succeeded')::int,
                   dead = p.dead + (v_state = 'dead')::int, cancelled = p.cancelled + (v_state = 'cancelled')::int,
                   done = p.done + CASE WHEN v_state = 'succeeded' THEN v_size ELSE 0 END,
                   records = p.records + CASE WHEN v_state = 'succeeded' THEN e.records ELSE 0 END
             WHERE p.id = p_parent;
        END IF;
    END LOOP;
END $$;
