-- Runs the dead and cancelled parts of a parent again, each from its last checkpoint; answers with how many [P9].
-- Callers: users, the store. Lock: those of redrive_parts.
CREATE OR REPLACE FUNCTION windlass.redrive(parent bigint) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    r record;
BEGIN
    SELECT * INTO r FROM windlass.redrive_parts(redrive.parent);
    IF r.holder IS NOT NULL THEN
        RAISE EXCEPTION 'the unique key of parent % is held by job %', redrive.parent, r.holder USING ERRCODE = 'WL001',
            DETAIL = r.holder::text, HINT = 'Cancel that job, or wait for its end.';
    END IF;
    IF r.final IS NOT NULL THEN
        RAISE EXCEPTION 'parts of parent % cannot run again while its finalizer, job %, has not ended', redrive.parent, r.final
            USING ERRCODE = 'WL019', DETAIL = r.final::text, HINT = 'Wait for its end, or cancel that job first.';
    END IF;
    RETURN r.parts;
END $$;
