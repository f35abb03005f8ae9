-- Refuses to write where a subscription still brings the changes of another database: the two would meet.
-- Callers: check_epoch, skip_ids, adopt. Lock: none.
CREATE OR REPLACE FUNCTION windlass.check_unsubscribed() RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_name text;
BEGIN
    SELECT s.subname INTO v_name FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = r.srsubid
     WHERE s.subenabled AND r.srrelid IN ('windlass.meta'::regclass, 'windlass.claim_0'::regclass);
    IF FOUND THEN
        RAISE EXCEPTION 'subscription % still brings changes of the original', quote_ident(v_name)
            USING ERRCODE = 'WL006', HINT = 'Stop what works with the original, let this one catch up, and drop the subscription.';
    END IF;
END $$;
