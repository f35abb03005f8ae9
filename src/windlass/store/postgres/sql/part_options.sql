-- The options of a part's job: those of its parent, but for what is the parent's alone, and which part it is [P4].
-- Callers: release, release_final. Lock: none.
CREATE OR REPLACE FUNCTION windlass.part_options(p windlass.parent, p_index int, p_span json, p_size bigint) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT (coalesce(p.options::jsonb, '{}') - '{unique_key,ordering_key,after,chunked,replay_of,unknown_since}'::text[]
            || jsonb_build_object('part', jsonb_build_object(
                   'parent', p.id, 'index', p_index, 'total', p.total, 'span', p_span::text, 'size', p_size,
                   'created_at', date_part('epoch', p.created_at))))::text
$$;
