-- The name of an enabled subscription that brings changes of this schema's tables, or NULL. Callers: adopt, must_adopt. Lock: none.
CREATE OR REPLACE FUNCTION windlass.subscribed_by() RETURNS text
LANGUAGE sql AS $$
    SELECT s.subname::text FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = r.srsubid AND s.subenabled
     WHERE r.srrelid = 'windlass.meta'::regclass OR r.srrelid = 'windlass.claim_0'::regclass LIMIT 1
$$;
