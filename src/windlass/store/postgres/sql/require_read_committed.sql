-- Refuses an isolation level whose snapshot may be older than a lock just taken. Callers: every function that
-- reads what a lock just taken protects. Lock: none.
CREATE OR REPLACE FUNCTION windlass.require_read_committed() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'this needs READ COMMITTED, and the transaction is %',
            upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'WL006', HINT = 'Call it outside of that transaction.';
    END IF;
END $$;
