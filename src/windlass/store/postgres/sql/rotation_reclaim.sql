-- Empties the victim: carries its unfinished claims with their outcomes and jobs, then truncates it.
-- Callers: the store's rotate, last. Lock: the rotation row; ACCESS EXCLUSIVE on the victim's partitions, NOWAIT: on
-- failure everything is let go at once. Claims and flushes wait only for what happens here, which is in proportion
-- to the jobs that run, not to the size of the segment.
-- Claims move here and nowhere else, so a flush finds each of them either before, in the victim, or after, in
-- its new segment, never between.
CREATE OR REPLACE FUNCTION windlass.rotation_reclaim(p_turn bigint) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    r         windlass.rotation := windlass.rotation_lock(p_turn);
    v_current smallint;
    v_moved   int;
BEGIN
    IF NOT r.judged THEN
        RAISE EXCEPTION 'segment % has not been judged yet', r.victim USING ERRCODE = 'WL008';
    END IF;
    EXECUTE format('LOCK TABLE ONLY windlass.%I, ONLY windlass.%I, ONLY windlass.%I, ONLY windlass.%I, ONLY windlass.%I '
                   'IN ACCESS EXCLUSIVE MODE NOWAIT', 'ready_' || r.victim, 'claim_' || r.victim,
                   'outcome_' || r.victim, 'failure_' || r.victim, 'result_' || r.victim);
    IF EXISTS (SELECT FROM windlass.lane l WHERE (windlass.cursor_of(l.id)).segment = r.victim) THEN
        RAISE EXCEPTION 'segment % still holds the cursor of a lane', r.victim USING ERRCODE = 'WL008';
    END IF;
    v_current := windlass.pin_segment();
    WITH open AS (
        SELECT c.lane, unnest(windlass.unfinished(c.id, c.seqs)) AS span
          FROM unnest(r.carry_lanes, r.carry) AS k (lane, id)
          JOIN windlass.claim c ON c.segment = r.victim AND c.lane = k.lane AND c.id = k.id),
    gone AS (
        DELETE FROM windlass.ready d USING open o
         WHERE d.segment = r.victim AND d.lane = o.lane AND d.seq >= lower(o.span) AND d.seq < upper(o.span)
        RETURNING d.*),
    put AS (
        INSERT INTO windlass.ready (segment, lane, seq, id, attempt, deaths, task, payload, options, offered_at, enqueued_at)
        SELECT v_current, lane, seq, id, attempt, deaths, task, payload, options, offered_at, enqueued_at FROM gone
        RETURNING 1)
    SELECT count(*) INTO v_moved FROM put;
    -- An update of the partition key is a move; these rows are few, and the truncate takes what it leaves behind.
    UPDATE windlass.outcome SET segment = v_current WHERE segment = r.victim AND claim = ANY (r.carry);
    UPDATE windlass.claim c SET segment = v_current FROM unnest(r.carry_lanes, r.carry) AS k (lane, id)
     WHERE c.segment = r.victim AND c.lane = k.lane AND c.id = k.id;
    EXECUTE format('TRUNCATE ONLY windlass.%I, ONLY windlass.%I, ONLY windlass.%I, ONLY windlass.%I, ONLY windlass.%I',
                   'ready_' || r.victim, 'claim_' || r.victim, 'outcome_' || r.victim, 'failure_' || r.victim,
                   'result_' || r.victim);
    UPDATE windlass.segment SET empty = true, opened_at = NULL, closed_at = NULL WHERE no = r.victim;
    UPDATE windlass.rotation SET victim = NULL, judged = false, carry = '{}', blocked = NULL, blocked_since = NULL;
    RETURN v_moved;
END $$;
