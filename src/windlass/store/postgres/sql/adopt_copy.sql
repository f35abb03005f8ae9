-- What a copy needs beside a new epoch [rule 15]: its transaction numbers mean nothing here, and its sequences may stand
-- anywhere, or not be there. Callers: adopt, which holds the rotation row. Lock: the watermark; SHARE ROW EXCLUSIVE on ready, so
-- that no producer is under way; the rows of touched keys, by trying only.
-- The lock is on ready alone, without its partitions: whoever draws a number takes it there first (see offer), and retry,
-- which holds a partition by then, would wait for us while we wait for it.
CREATE OR REPLACE FUNCTION windlass.adopt_copy() RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    l windlass.lane;
BEGIN
    PERFORM FROM windlass.deferred_watermark FOR UPDATE;
    LOCK TABLE ONLY windlass.ready IN SHARE ROW EXCLUSIVE MODE;
    UPDATE windlass.deferred_watermark SET run_at = '-infinity', snapshot = NULL;
    UPDATE windlass.rotation SET victim = NULL, turn = turn + 1, judged = false, carry_lanes = '{}', carry = '{}';
    PERFORM FROM windlass.unique_key WHERE touched IS NOT NULL FOR UPDATE NOWAIT;  -- see adopt_edits
    FOR l IN SELECT * FROM windlass.lane ORDER BY id LOOP
        EXECUTE format('CREATE SEQUENCE IF NOT EXISTS %s MINVALUE 1 MAXVALUE 17592186044415 NO CYCLE CACHE 1', l.position);
        EXECUTE format('CREATE SEQUENCE IF NOT EXISTS %s MINVALUE 0 MAXVALUE 1 START 1 CACHE 1', l.idle);
    END LOOP;
    -- What is never set back by more than was given out stands at least at the highest that is known.
    PERFORM setval(s.sequence, s.highest, true)
       FROM (VALUES ('windlass.claim_id'::regclass, (SELECT max(id) FROM windlass.claim)),
                    ('windlass.lane_id'::regclass, (SELECT max(id) FROM windlass.lane)),
                    ('windlass.seq_set_id'::regclass, (SELECT max(id) FROM windlass.seq_set)),
                    ('windlass.held_turn'::regclass, greatest((SELECT max(turn) FROM windlass.held),
                                                              (SELECT max(turn) FROM windlass.pass))),
                    ('windlass.part_event_no'::regclass, (SELECT max(no) FROM windlass.part_event)),
                    ('windlass.news_id_seq'::regclass, (SELECT max(id) FROM windlass.news)),
                    ('windlass.event_id_seq'::regclass, (SELECT max(id) FROM windlass.event)),
                    -- Where none came along: the segment that is open, by its row.
                    ('windlass.segment_current'::regclass,
                     CASE WHEN pg_sequence_last_value('windlass.segment_current'::regclass) IS NULL
                          THEN coalesce((SELECT no FROM windlass.segment WHERE NOT empty AND closed_at IS NULL
                                          ORDER BY opened_at DESC NULLS LAST LIMIT 1), 0) END))
         AS s (sequence, highest)
      WHERE s.highest > coalesce(pg_sequence_last_value(s.sequence), -1);
    PERFORM setval('windlass.horizon', 0, true), setval('windlass.awaited', 0, true);
    -- Lane 0 holds the ids drawn from job_id.
    PERFORM windlass.skip_ids(greatest((SELECT max(id) FROM windlass.ready WHERE id < 1::bigint << 44),
                                       (SELECT max(id) FROM windlass.deferred WHERE id < 1::bigint << 44),
                                       (SELECT max(id) FROM windlass.held WHERE id < 1::bigint << 44),
                                       (SELECT max(id) FROM windlass.dead WHERE id < 1::bigint << 44),
                                       (SELECT max(id) FROM windlass.parent WHERE id < 1::bigint << 44),
                                       (SELECT max(job) FROM windlass.part WHERE job < 1::bigint << 44),
                                       (SELECT max(job) FROM windlass.unique_key WHERE job < 1::bigint << 44),
                                       (SELECT max(job) FROM windlass.idempotency WHERE job < 1::bigint << 44), 0));
END $$;
