-- The 64-bit form of a 32-bit xid, given a full xid of about the same time. Callers: publish_horizon. Lock: none.
-- The distance is taken as signed: the xid may be a little older or a little newer.
CREATE OR REPLACE FUNCTION windlass.full_xid(p_xid xid, p_near bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_near - (((p_near - p_xid::text::bigint + 2147483648) & 4294967295) - 2147483648)
$$;
