-- Before a dead job is brought back: if it is a part's, the part is out again and its parent waits again [P9]. Answers
-- with that parent, or NULL where there is none; `held` says that another job holds the parent's key, or that its finalizer
-- waits or runs, which is never beside parts: nothing was changed then. Callers: retry. Lock: the parent's row, before that of the dead job, as in redrive_parts.
CREATE OR REPLACE FUNCTION windlass.reopen_for(p_job bigint, OUT parent bigint, OUT held boolean)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_index int;
BEGIN
    SELECT t.parent INTO parent FROM windlass.part t
     WHERE t.job = p_job AND EXISTS (SELECT FROM windlass.dead d WHERE d.id = p_job);
    IF windlass.advance(parent) IS NULL THEN
        parent := NULL;
        RETURN;
    END IF;
    SELECT t.index INTO v_index FROM windlass.part t
     WHERE t.parent = reopen_for.parent AND t.job = p_job AND t.state = 'dead';
    IF FOUND THEN
        -- Somebody may be deleting it.
        PERFORM FROM windlass.dead d WHERE d.id = p_job FOR UPDATE;
    END IF;
    IF NOT FOUND THEN
        parent := NULL;
        RETURN;
    END IF;
    held := EXISTS (SELECT FROM windlass.parent p WHERE p.id = reopen_for.parent AND p.final_state = 'out');
    IF held THEN
        RETURN;
    END IF;
    held := windlass.reopen(parent, p_job) IS NOT NULL;
    IF held THEN
        RETURN;
    END IF;
    UPDATE windlass.part t SET state = 'out', error = NULL WHERE t.parent = reopen_for.parent AND t.index = v_index;
    UPDATE windlass.parent p
       SET dead = p.dead - (v_index >= 0)::int, out = p.out + (v_index >= 0)::int,
           final_state = CASE WHEN v_index < 0 THEN 'out' ELSE p.final_state END
     WHERE p.id = reopen_for.parent;
END $$;
