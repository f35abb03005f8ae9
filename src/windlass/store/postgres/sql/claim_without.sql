-- The jobs of a claim without those at some places; NULL everywhere where none is left. Callers: claim_needs, claim_gated.
-- Lock: none.
CREATE OR REPLACE FUNCTION windlass.claim_without(
    p_places int[], INOUT seqs bigint[], INOUT ids bigint[], INOUT tasks text[], INOUT payloads text[], INOUT options text[],
    INOUT attempts smallint[], INOUT deaths smallint[], INOUT enqueued float8[], INOUT offered float8[])
LANGUAGE sql IMMUTABLE AS $$
    SELECT array_agg(u.seq ORDER BY u.i), array_agg(u.id ORDER BY u.i), array_agg(u.task ORDER BY u.i),
           array_agg(u.payload ORDER BY u.i), array_agg(u.opts ORDER BY u.i), array_agg(u.attempt ORDER BY u.i),
           array_agg(u.death ORDER BY u.i), array_agg(u.at ORDER BY u.i), array_agg(u.since ORDER BY u.i)
      FROM unnest(seqs, ids, tasks, payloads, options, attempts, deaths, enqueued, offered) WITH ORDINALITY
        AS u (seq, id, task, payload, opts, attempt, death, at, since, i)
     WHERE u.i <> ALL (p_places)
$$;
