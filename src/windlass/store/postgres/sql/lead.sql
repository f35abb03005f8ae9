-- Stands for coordinator, or goes on being it: the number of the term, or NULL while another holds one [K3].
-- Callers: the store. Lock: the leader row; whoever finds that another leads has looked without it.
CREATE OR REPLACE FUNCTION windlass.lead(p_candidate bigint, p_length float8) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    l windlass.leader;
BEGIN
    PERFORM windlass.check_epoch();
    SELECT * INTO l FROM windlass.leader;
    IF l.holder <> p_candidate AND windlass.term_runs(l) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO l FROM windlass.leader FOR UPDATE;
    IF l.holder <> p_candidate AND windlass.term_runs(l) THEN
        RETURN NULL;
    ELSIF NOT windlass.term_runs(l) THEN
        l.term := l.term + 1;
    END IF;
    UPDATE windlass.leader SET holder = p_candidate, term = l.term, until = windlass.after(least(p_length, 300));
    RETURN l.term;
END $$;
