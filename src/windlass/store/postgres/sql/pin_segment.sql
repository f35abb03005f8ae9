-- Names the current segment and keeps it from being sealed until the transaction ends.
-- Callers: offer, declare_lane, finish, note_failure, retry, retry_many, rotation_move,
-- rotation_move_failures, rotation_reclaim, adopt_lane.
-- Lock: ROW EXCLUSIVE on the partition of ready.
-- The number is read from a sequence, so no snapshot is too old for it, and it is read again after the lock:
-- whoever holds the lock on ready_N while N is not current took it before the switch. rotation_seal looks for
-- exactly those.
CREATE OR REPLACE FUNCTION windlass.pin_segment() RETURNS smallint
LANGUAGE plpgsql AS $$
DECLARE
    v_segment smallint;
BEGIN
    LOOP
        v_segment := pg_sequence_last_value('windlass.segment_current'::regclass);
        CASE v_segment
            WHEN 0 THEN LOCK TABLE ONLY windlass.ready_0 IN ROW EXCLUSIVE MODE;
            WHEN 1 THEN LOCK TABLE ONLY windlass.ready_1 IN ROW EXCLUSIVE MODE;
            WHEN 2 THEN LOCK TABLE ONLY windlass.ready_2 IN ROW EXCLUSIVE MODE;
            WHEN 3 THEN LOCK TABLE ONLY windlass.ready_3 IN ROW EXCLUSIVE MODE;
            WHEN 4 THEN LOCK TABLE ONLY windlass.ready_4 IN ROW EXCLUSIVE MODE;
            WHEN 5 THEN LOCK TABLE ONLY windlass.ready_5 IN ROW EXCLUSIVE MODE;
            WHEN 6 THEN LOCK TABLE ONLY windlass.ready_6 IN ROW EXCLUSIVE MODE;
            WHEN 7 THEN LOCK TABLE ONLY windlass.ready_7 IN ROW EXCLUSIVE MODE;
        END CASE;
        EXIT WHEN pg_sequence_last_value('windlass.segment_current'::regclass) = v_segment;
    END LOOP;
    RETURN v_segment;
END $$;
