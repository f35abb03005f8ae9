-- Whether automatic enqueues of a unique key are parked: its last runs have all died, the last one not long ago [O7].
-- Callers: enqueue_one. Lock: none. core/parking.py says the same.
CREATE OR REPLACE FUNCTION windlass.is_parked(p_key text) RETURNS boolean
LANGUAGE sql VOLATILE SET enable_seqscan = off SET jit = off AS $$
    SELECT EXISTS (SELECT FROM windlass.key_death k, windlass.meta m
                    WHERE k.key = p_key AND k.deaths >= m.park_after AND windlass.now() < k.at + interval '7 days'
                      AND windlass.now() < k.at + least(interval '30 minutes' * 2 ^ least(k.deaths - m.park_after, 10),
                                                        interval '6 hours'))
$$;
