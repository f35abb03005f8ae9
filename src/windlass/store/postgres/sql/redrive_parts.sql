-- Lets the failed parts of a parent wait for their turn again, and those that a cancel kept from theirs [P9]. `parts` says
-- how many, with a finalizer that did not succeed; `holder` is the job that holds its unique key by now, `final` its finalizer while
-- that waits or runs, which is never beside parts: then nothing was changed.
-- Callers: redrive, retry. Lock: the parent's row; the dead letters of its parts; then those of advance.
CREATE OR REPLACE FUNCTION windlass.redrive_parts(p_parent bigint, OUT parts int, OUT holder bigint, OUT final bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    p windlass.parent;
BEGIN
    parts := 0;
    PERFORM windlass.advance(p_parent);
    SELECT * INTO p FROM windlass.parent x WHERE x.id = p_parent;
    parts := coalesce(p.dead + p.cancelled + CASE WHEN p.cancelling THEN p.pending ELSE 0 END
                      + CASE WHEN p.final_state IN ('dead', 'cancelled') THEN 1 ELSE 0 END, 0);
    IF parts = 0 THEN
        RETURN;
    END IF;
    IF p.final_state = 'out' THEN
        final := p.final;
        RETURN;
    END IF;
    holder := windlass.reopen(p_parent);
    IF holder IS NOT NULL THEN
        RETURN;
    END IF;
    DELETE FROM windlass.dead d
     WHERE d.id IN (SELECT t.job FROM windlass.part t
                     WHERE t.parent = p_parent AND t.state <> 'succeeded' AND t.job IS NOT NULL AND t.state = 'dead');
    UPDATE windlass.part t SET state = 'pending', error = NULL
     WHERE t.parent = p_parent AND t.state <> 'succeeded' AND t.job IS NOT NULL AND t.state IN ('dead', 'cancelled');
    UPDATE windlass.parent x SET pending = x.pending + x.dead + x.cancelled, dead = 0, cancelled = 0 WHERE x.id = p_parent;
    PERFORM windlass.advance(p_parent);
END $$;
