-- How many seqs a set holds. Callers: claim_take, take_ahead, hole_state, open_claims, finish, depth, adopt_lane, lane_seen.
-- Lock: none.
CREATE OR REPLACE FUNCTION windlass.size_of(p_seqs int8multirange) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT coalesce(sum(upper(s) - lower(s)), 0)::bigint FROM unnest(p_seqs) AS s $$;
