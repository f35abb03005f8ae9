-- How many numbers of 44 bits to pass over at the beginning of an epoch: half a billion to a billion, which is more than any
-- loss, and by chance, so that two servers promoted from one history go different ways; less when few are left [S3].
-- Callers: skip_ids, adopt, adopt_lane, declare_lane, rotation_begin. Lock: none.
CREATE OR REPLACE FUNCTION windlass.skip_of(p_last bigint) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT least((1 << 29) + floor(random() * (1 << 29))::bigint, (17592186044415 - p_last) / 4)
$$;
