-- The size of a segment, or of all (NULL). Callers: rotation_begin. Lock: none.
CREATE OR REPLACE FUNCTION windlass.segment_bytes(p_segment smallint) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(sum(pg_total_relation_size(i.inhrelid)), 0)::bigint
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
     WHERE i.inhparent IN ('windlass.ready'::regclass, 'windlass.claim'::regclass, 'windlass.outcome'::regclass,
                           'windlass.failure'::regclass, 'windlass.result'::regclass)
       AND (p_segment IS NULL OR c.relname LIKE E'%\\_' || p_segment)
$$;
