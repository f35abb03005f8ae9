-- The functions whose plans are pinned and that the server would nevertheless compile at every call, where it can. Callers:
-- diagnosis. Lock: none.
SELECT p.proname::text AS name FROM pg_proc p
 WHERE p.pronamespace = (SELECT m.relnamespace FROM pg_class m WHERE m.oid = 'windlass.meta'::regclass)
   AND EXISTS (SELECT FROM unnest(p.proconfig) AS c WHERE c LIKE E'enable\\_%=off') AND 'jit=off' <> ALL (p.proconfig)
   AND pg_jit_available() AND current_setting('jit')::boolean
 ORDER BY p.proname
