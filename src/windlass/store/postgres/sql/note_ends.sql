-- Notes how jobs of parts ended, for their parents to fold in. Callers: settle, in the transaction that ends the jobs or,
-- late, in note_missed.
-- Lock: none. It only adds rows, so that finishes, rescues and cancels of one parent's parts never wait for each other.
CREATE OR REPLACE FUNCTION windlass.note_ends(p_jobs bigint[], p_kind text) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    INSERT INTO windlass.part_event (parent, index, job, kind, attempt, records, error)
    SELECT t.parent, t.index, t.job, p_kind, coalesce((l.ready).attempt, d.attempt, greatest(t.attempt, 1)),
           windlass.records_of(k.data),
           CASE WHEN p_kind = 'dead'
                THEN coalesce((d.errors -> -1 ->> 'type') || ': ' || (d.errors -> -1 ->> 'message'), d.reason) END
      FROM windlass.part t
      LEFT JOIN windlass.dead d ON d.id = t.job
      LEFT JOIN windlass.checkpoint k ON k.job = t.job
      LEFT JOIN LATERAL windlass.locate(t.job) AS l ON true
     WHERE t.job = ANY (p_jobs);
END $$;
