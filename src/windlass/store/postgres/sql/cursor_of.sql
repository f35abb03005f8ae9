-- The cursor of a lane: its newest claim row [rule 2]. Callers: claim_take, take_ahead, rotation_touch,
-- rotation_move, rotation_reclaim, adopt_lane, must_adopt, expire, lane_depth, lane_seen, lane_head, lane_tasks,
-- list_spans.
-- Lock: none; who writes a claim row after it holds the lane lock.
CREATE OR REPLACE FUNCTION windlass.cursor_of(p_lane int) RETURNS windlass.claim
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    c windlass.claim;
BEGIN
    SELECT * INTO c FROM windlass.claim WHERE lane = p_lane ORDER BY id DESC LIMIT 1;
    IF NOT FOUND AND current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'the cursor of lane % is not visible to this transaction', p_lane
            USING ERRCODE = 'serialization_failure', HINT = 'Run the transaction again.';
    ELSIF NOT FOUND THEN
        RAISE EXCEPTION 'lane % has no cursor', p_lane USING ERRCODE = 'WL003',
            HINT = 'Its claim rows are missing; restore them from a backup before claiming from it.';
    END IF;
    RETURN c;
END $$;
