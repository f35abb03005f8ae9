-- Whether an outcome speaks of a claim that is not the worker's, or of seqs outside it [C5].
-- Callers: finish, finish_others, split. Lock: none. A claim that is not there was reclaimed after it had ended;
-- that is no wrong if the worker's flush of this number was among what went. A snapshot older than the statement may
-- miss a claim that was carried to another segment meanwhile: that transaction must be tried again.
CREATE OR REPLACE FUNCTION windlass.is_wrong(
    p_owner bigint, p_held int8multirange, p_worker bigint, p_seqs int8multirange, p_flush bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_owner IS NOT NULL THEN
        RETURN p_owner <> p_worker OR NOT p_held @> p_seqs;
    ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'the claim is not visible to this transaction' USING ERRCODE = 'serialization_failure',
            HINT = 'Run the transaction again.';
    END IF;
    RETURN p_flush > coalesce((SELECT w.flushed FROM windlass.worker w WHERE w.id = p_worker), 0);
END $$;
