-- The lock of a queue that has a limit on its claims, taken before that of the lane: who has it may count what runs and give
-- out the rest. False: another had it for longer than p_wait ms. Callers: claim. Lock: advisory, (oid of the queue table, hash
-- of the queue), until the transaction ends.
CREATE OR REPLACE FUNCTION windlass.queue_lock(p_lane int, p_wait int) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    v_space  int := ('windlass.queue'::regclass::oid::bigint - 2147483648)::int;
    v_key    int := (SELECT hashtext(l.queue) FROM windlass.lane l WHERE l.id = p_lane);
    v_before text := current_setting('lock_timeout');
BEGIN
    IF NOT pg_try_advisory_xact_lock(v_space, v_key) THEN
        PERFORM set_config('lock_timeout', p_wait || 'ms', true);
        PERFORM pg_advisory_xact_lock(v_space, v_key);
        PERFORM set_config('lock_timeout', v_before, true);
    END IF;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;
