-- Writes a set of seqs aside, once, and answers with the list of sets that now stand for the lane.
-- Callers: take_ahead, hole_state. Lock: the lane's, held by the caller.
-- A new set takes up older ones of up to twice its size, as a binary counter does: n ranges cost n*log n to
-- keep in at most log n sets, while each claim row only repeats their ids. The horizon of the union is the
-- caller's own xid, later than any of the old ones, so nothing dies early.
CREATE OR REPLACE FUNCTION windlass.spill(
    p_lane int, p_seqs int8multirange, p_horizon bigint, p_spilled bigint[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    s        windlass.seq_set;
    v_seqs   int8multirange := p_seqs;
    v_ranges int;
    v_kept   bigint[] := p_spilled;
    v_id     bigint := nextval('windlass.seq_set_id');
BEGIN
    SELECT count(*) INTO v_ranges FROM unnest(v_seqs);
    FOR s IN SELECT * FROM windlass.seq_set WHERE id = ANY (p_spilled) ORDER BY ranges LOOP
        EXIT WHEN s.ranges > 2 * v_ranges;
        v_seqs := v_seqs + s.seqs;
        v_ranges := v_ranges + s.ranges;
        v_kept := array_remove(v_kept, s.id);
    END LOOP;
    INSERT INTO windlass.seq_set (id, lane, horizon, ranges, n, seqs)
    SELECT v_id, p_lane, p_horizon, count(*), coalesce(sum(upper(u) - lower(u)), 0), v_seqs FROM unnest(v_seqs) AS u;
    RETURN v_kept || v_id;
END $$;
