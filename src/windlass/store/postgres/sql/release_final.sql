-- Releases the finalizer of a parent, whose parts have all ended [P9]. Callers: advance. Lock: the parent's row, held by
-- the caller; those of offer.
CREATE OR REPLACE FUNCTION windlass.release_final(p windlass.parent) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_job bigint := (windlass.offer_parts(p, ARRAY[windlass.part_options(p, -1, 'null', 0)]))[1];
BEGIN
    INSERT INTO windlass.part (parent, index, span, size, state, job, attempt) VALUES (p.id, -1, 'null', 0, 'out', v_job, 1);
    UPDATE windlass.parent x SET final = v_job, final_state = 'out' WHERE x.id = p.id;
END $$;
