-- Releases the next parts of a parent, the lowest index first, as many as may run beside those that are out [P8].
-- Callers: advance. Lock: the parent's row, held by the caller; those of offer.
-- A part that had a job before goes on from what that one saved: its checkpoint passes to the new job.
CREATE OR REPLACE FUNCTION windlass.release(p windlass.parent) RETURNS void
LANGUAGE plpgsql SET enable_sort = off SET jit = off AS $$
DECLARE
    v_indexes int[];
    v_options text[];
    v_old     bigint[];
    v_new     bigint[];
BEGIN
    SELECT array_agg(t.index), array_agg(windlass.part_options(p, t.index, t.span, t.size)), array_agg(t.job)
      INTO v_indexes, v_options, v_old
      FROM (SELECT x.index, x.span, x.size, x.job FROM windlass.part x WHERE x.parent = p.id AND x.state = 'pending'
             ORDER BY x.index LIMIT least(p.pending, p.parallel - p.out)) AS t;
    v_new := windlass.offer_parts(p, v_options);
    UPDATE windlass.checkpoint k SET job = u.new FROM unnest(v_old, v_new) AS u (old, new) WHERE k.job = u.old;
    UPDATE windlass.part t SET state = 'out', job = u.job, attempt = 1
      FROM unnest(v_indexes, v_new) AS u (index, job) WHERE t.parent = p.id AND t.index = u.index;
    UPDATE windlass.parent x SET pending = x.pending - cardinality(v_new), out = x.out + cardinality(v_new)
     WHERE x.id = p.id;
END $$;
