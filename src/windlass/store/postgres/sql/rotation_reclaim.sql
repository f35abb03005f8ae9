-- Empties the victim: carries its unfinished claims with their outcomes and jobs, and truncates it p_grace seconds
-- later. Callers: the store's rotate, last. Lock: the rotation row; ACCESS EXCLUSIVE on the victim's partitions, NOWAIT:
-- on failure everything is let go at once. Claims and flushes wait only for what happens here, which is in proportion
-- to the jobs that run, not to the size of the segment.
-- Claims move here and nowhere else, so a flush finds each of them either before, in the victim, or after, in its new
-- segment. TRUNCATE heeds no snapshot: a dump that began before the moves and locks its tables after it would hold what
-- was moved in neither place. The grace is for that: whoever began before the moves has its locks by then.
CREATE OR REPLACE FUNCTION windlass.rotation_reclaim(
    p_turn bigint, p_grace float8, OUT moved int, OUT done boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    r         windlass.rotation := windlass.rotation_lock(p_turn);
    v_current smallint;
BEGIN
    moved := 0;
    done := false;
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
    SELECT count(*) INTO moved FROM put;
    -- An update of the partition key is a move; these rows are few, and the truncate takes what it leaves behind. An
    -- outcome may come in late, by a snapshot older than its claim's move: the second time takes it along.
    UPDATE windlass.outcome SET segment = v_current WHERE segment = r.victim AND claim = ANY (r.carry);
    UPDATE windlass.claim c SET segment = v_current FROM unnest(r.carry_lanes, r.carry) AS k (lane, id)
     WHERE c.segment = r.victim AND c.lane = k.lane AND c.id = k.id;
    IF r.carried_at IS NULL THEN
        r.carried_at := windlass.now();
        UPDATE windlass.rotation SET carried_at = r.carried_at;
    END IF;
    IF r.carried_at BETWEEN windlass.now() - make_interval(secs => p_grace) AND windlass.now() THEN
        RETURN;
    END IF;
    done := true;
    EXECUTE format('TRUNCATE ONLY windlass.%I, ONLY windlass.%I, ONLY windlass.%I, ONLY windlass.%I, ONLY windlass.%I',
                   'ready_' || r.victim, 'claim_' || r.victim, 'outcome_' || r.victim, 'failure_' || r.victim,
                   'result_' || r.victim);
    UPDATE windlass.segment SET empty = true, opened_at = NULL, closed_at = NULL WHERE no = r.victim;
    UPDATE windlass.rotation SET victim = NULL, judged = false, carry = '{}', blocked = NULL, blocked_since = NULL;
END $$;
