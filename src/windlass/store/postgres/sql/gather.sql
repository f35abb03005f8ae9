-- A set of seqs in one piece: what stands in the claim row and what was spilled from it.
-- Callers: claim_take, take_ahead, rotation_move, adopt_lane, must_adopt, lane_depth, lane_seen, lane_head, lane_tasks, list_claims,
-- list_spans. Lock: none.
CREATE OR REPLACE FUNCTION windlass.gather(p_inline int8multirange, p_spilled bigint[]) RETURNS int8multirange
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_spilled IS NULL OR p_spilled = '{}' THEN
        RETURN coalesce(p_inline, '{}');
    END IF;
    RETURN coalesce(p_inline, '{}')
         + coalesce((SELECT range_agg(s.seqs) FROM windlass.seq_set s WHERE s.id = ANY (p_spilled)), '{}');
END $$;
