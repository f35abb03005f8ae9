-- Locks the row of a bucket as bucket_lock does, but waits for p_wait ms at most; false: another has it for longer, in a
-- transaction that takes tokens by hand, say. Callers: claim_count, claim_needs, claim_plenty, which hold a lane meanwhile. Lock:
-- that row, until the transaction ends.
CREATE OR REPLACE FUNCTION windlass.bucket_try(p_budget text, p_key text, p_wait int) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_before text := current_setting('lock_timeout');
BEGIN
    PERFORM FROM windlass.bucket x WHERE x.budget = p_budget AND x.key = p_key FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        RETURN true;
    END IF;
    BEGIN
        PERFORM set_config('lock_timeout', greatest(p_wait, 1) || 'ms', true);
        PERFORM windlass.bucket_lock(p_budget, p_key);
        PERFORM set_config('lock_timeout', v_before, true);
        RETURN true;
    EXCEPTION WHEN lock_not_available THEN
        RETURN false;
    END;
END $$;
