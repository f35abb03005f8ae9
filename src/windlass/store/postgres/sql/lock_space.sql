-- The first key of this schema's advisory locks: the oid of its lane table. Callers: lane_lock, claim, claim_room, may_end,
-- shut_out, adopt_lane, skip_ids.
-- Lock: none.
CREATE OR REPLACE FUNCTION windlass.lock_space() RETURNS int
LANGUAGE sql STABLE AS $$ SELECT ('windlass.lane'::regclass::oid::bigint - 2147483648)::int $$;
