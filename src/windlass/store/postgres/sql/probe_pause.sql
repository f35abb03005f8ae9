-- How long a lane's holes are left alone between two probes: 50 ms, and more where they are many, since each
-- range costs an index probe per segment; hardly at all where they are a handful, since that is a job or two whose
-- producers commit a moment late. Callers: claim_take. Lock: none.
CREATE OR REPLACE FUNCTION windlass.probe_pause(c windlass.claim) RETURNS interval
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN c.holes <= 8 AND c.spilled IS NULL THEN interval '1 millisecond'
                ELSE make_interval(secs => 0.05 * (1 + coalesce((SELECT sum(ranges) FROM windlass.seq_set
                                                                  WHERE id = ANY (c.spilled)), 0) / 250.0)) END
$$;
