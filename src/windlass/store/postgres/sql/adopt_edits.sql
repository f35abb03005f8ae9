-- Decides about every edit that met a waiting twin in the original: transaction numbers of there cannot be compared with those
-- of here. Callers: adopt, after all that ran was offered again or cancelled. Lock: the keys' rows, held by adopt_copy.
-- One that has begun and goes on, or has ended and could not free its key, may have missed the edit: by the snapshot of its
-- claim it is owed a rerun (see free_key) or not. Whoever begins after this has not missed it.
CREATE OR REPLACE FUNCTION windlass.adopt_edits() RETURNS void
LANGUAGE sql SET enable_seqscan = off SET jit = off AS $$
    UPDATE windlass.unique_key u SET touched = NULL,
           rerun = CASE WHEN EXISTS (SELECT FROM windlass.parent p
                                      WHERE p.id = u.job AND NOT pg_visible_in_snapshot(u.touched, p.snapshot))
                          OR EXISTS (SELECT FROM windlass.unsettled e
                                      WHERE e.job = u.job AND NOT pg_visible_in_snapshot(u.touched, e.snapshot))
                        THEN u.rerun END
     WHERE u.touched IS NOT NULL
$$;
