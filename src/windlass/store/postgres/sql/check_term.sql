-- Refuses what a coordinator writes whose term is over [K3]. Callers: governed, govern, fire_schedule. Lock: the leader row FOR
-- SHARE, so that no other term begins before this is committed.
CREATE OR REPLACE FUNCTION windlass.check_term(p_term bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM windlass.leader l WHERE l.term = p_term AND windlass.term_runs(l) FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'term % is over', p_term USING ERRCODE = 'WL009',
            HINT = 'Another may coordinate by now; stand again first.';
    END IF;
END $$;
