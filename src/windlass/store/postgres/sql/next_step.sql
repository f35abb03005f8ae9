-- What a parent does next, from how its parts stand [P9]: wait, release, finalize, succeed, die or cancel.
-- Callers: advance. Lock: none. core/parents.py says the same.
CREATE OR REPLACE FUNCTION windlass.next_step(p windlass.parent) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p.state <> 'waiting' THEN 'wait'
                WHEN p.cancelling THEN CASE WHEN p.out > 0 OR p.final_state = 'out' THEN 'wait' ELSE 'cancel' END
                WHEN p.pending > 0 AND p.out < p.parallel THEN 'release'
                WHEN p.pending > 0 OR p.out > 0 THEN 'wait'
                WHEN p.dead + p.cancelled > p.tolerated THEN 'die'
                WHEN NOT p.finalizer THEN 'succeed'
                WHEN p.final_state IS NULL THEN 'finalize'
                WHEN p.final_state = 'succeeded' THEN 'succeed'
                WHEN p.final_state = 'dead' THEN 'die'
                WHEN p.final_state = 'cancelled' THEN 'cancel'
                ELSE 'wait' END
$$;
