-- Changes how many parts of a parent run at a time, while it runs [P8]. False: there is no such parent.
-- Callers: users, the store. Lock: those of advance.
CREATE OR REPLACE FUNCTION windlass.set_parent(parent bigint, parallel int) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
BEGIN
    IF parallel IS NULL OR parallel < 1 THEN
        RAISE EXCEPTION 'parallel of parent % cannot be %', parent, parallel USING ERRCODE = 'WL005', HINT = 'Write 1 or more.';
    END IF;
    UPDATE windlass.parent p SET parallel = set_parent.parallel WHERE p.id = set_parent.parent;
    RETURN windlass.advance(parent) IS NOT NULL;
END $$;
