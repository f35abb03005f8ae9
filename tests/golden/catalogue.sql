-- The catalogue of the schema, as a name, a line about it and the lines below that, by kind. The roles golden_…
-- exist and are allowed what their kinds are.

-- :functions
SELECT p.proname || '(' || pg_get_function_arguments(p.oid) || ')'
       || coalesce(' RETURNS ' || pg_get_function_result(p.oid), ''),
       ARRAY[concat_ws(' ', CASE p.prokind WHEN 'p' THEN 'procedure' ELSE 'function' END, l.lanname,
                       CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END,
                       CASE p.proparallel WHEN 's' THEN 'parallel safe' WHEN 'r' THEN 'parallel restricted' END,
                       CASE WHEN p.proisstrict THEN 'strict' END,
                       CASE WHEN p.prosecdef THEN 'security definer' END,
                       'cost ' || p.procost, CASE WHEN p.proretset THEN 'rows ' || p.prorows END)]
       || ARRAY(SELECT 'SET ' || string_agg(each, '; ' ORDER BY each) FROM unnest(p.proconfig) each
                HAVING count(*) > 0)
       || ARRAY['may call: ' || coalesce((SELECT string_agg(kind, ', ' ORDER BY kind)
                                            FROM unnest('{public,golden_producer,golden_worker,golden_reader}'::text[]) kind
                                           WHERE has_function_privilege(kind, p.oid, 'EXECUTE')), 'the owner')]
  FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
 WHERE p.pronamespace = 'windlass'::regnamespace

-- :tables
SELECT c.relname || CASE c.relkind WHEN 'v' THEN ' (view)' WHEN 'p' THEN ' (partitioned)' WHEN 'c' THEN ' (type)'
                         ELSE '' END || CASE c.relpersistence WHEN 'u' THEN ' (unlogged)' ELSE '' END,
       ARRAY(SELECT a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
                    || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
                    || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '')
                    || CASE a.attidentity WHEN '' THEN '' ELSE ' IDENTITY' END
                    || CASE WHEN a.attstorage <> t.typstorage THEN ' STORAGE ' || a.attstorage::text ELSE '' END
               FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
               LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
              WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum)
       || ARRAY(SELECT pg_get_constraintdef(k.oid) FROM pg_constraint k
                 WHERE k.conrelid = c.oid AND k.contype <> 'n' ORDER BY 1)
       || ARRAY(SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i WHERE i.indrelid = c.oid AND NOT i.indisprimary
                 ORDER BY 1)
       || ARRAY(SELECT pg_get_triggerdef(g.oid) FROM pg_trigger g
                 WHERE g.tgrelid = c.oid AND NOT g.tgisinternal ORDER BY 1)
       || ARRAY(SELECT 'PARTITION OF ' || i.inhparent::regclass || ' ' || pg_get_expr(c.relpartbound, c.oid)
                  FROM pg_inherits i WHERE i.inhrelid = c.oid)
       || ARRAY(SELECT 'WITH ' || each FROM unnest(c.reloptions) each ORDER BY each)
       || ARRAY(SELECT g.privilege_type || ': ' || string_agg(g.grantee::regrole::text, ', ' ORDER BY g.grantee::regrole::text)
                  FROM aclexplode(c.relacl) g WHERE g.grantee <> c.relowner GROUP BY g.privilege_type ORDER BY 1)
  FROM pg_class c
 WHERE c.relnamespace = 'windlass'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'c')
   AND NOT (c.relispartition AND c.relname !~ '_0$')

-- :sequences
SELECT s.sequencename,
       ARRAY[concat_ws(' ', s.data_type, 'from', s.min_value, 'to', s.max_value, 'starts at', s.start_value,
                       'by', s.increment_by, 'caches', s.cache_size, CASE WHEN s.cycle THEN 'cycles' END)]
       || ARRAY(SELECT g.privilege_type || ': ' || string_agg(g.grantee::regrole::text, ', ' ORDER BY g.grantee::regrole::text)
                  FROM aclexplode(c.relacl) g WHERE g.grantee <> c.relowner GROUP BY g.privilege_type ORDER BY 1)
  FROM pg_sequences s JOIN pg_class c ON c.relname = s.sequencename AND c.relnamespace = 'windlass'::regnamespace
 WHERE s.schemaname = 'windlass'
