-- The lock of a gate: who has it lets jobs through. False: another had it for longer than p_wait ms; with 0 it is only tried.
-- Callers: admit_gates, claim_gated. Lock: advisory, (oid of the held table, hash of the gate), until the
-- transaction ends.
-- No producer takes it, and nobody who holds it waits for a lane, a worker or a parent.
CREATE OR REPLACE FUNCTION windlass.gate_lock(p_gate text, p_wait int) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_space  int := ('windlass.held'::regclass::oid::bigint - 2147483648)::int;
    v_before text := current_setting('lock_timeout');
BEGIN
    IF pg_try_advisory_xact_lock(v_space, hashtext(p_gate)) THEN
        RETURN true;
    ELSIF p_wait > 0 THEN
        PERFORM set_config('lock_timeout', p_wait || 'ms', true);
        PERFORM pg_advisory_xact_lock(v_space, hashtext(p_gate));
        PERFORM set_config('lock_timeout', v_before, true);
        RETURN true;
    END IF;
    RETURN false;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;
