-- Puts jobs at the back of a lane and answers with their seqs, in order. The only writer of new ready rows.
-- Callers: enqueue_many, enqueue_one, enqueue_gated, enqueue_new, again, promote, offer_held, offer_one, offer_parts,
-- end_waiting, end_aside, adopt_lane, rotation_move. Lock: ROW EXCLUSIVE on ready and its partition.
-- Order matters [rule 3]: the xid, then the lock on ready, then the numbers, all of them before the first
-- insert. A hole in a claim belongs to a transaction that had its xid before the hole could be seen, and that
-- shows in pg_locks for as long as it lives.
-- p_tasks of length 1 stands for all; a NULL array stands for defaults. p_since: since when they have been ready.
CREATE OR REPLACE FUNCTION windlass.offer(
    p_lane int, p_n int, p_tasks text[], p_payloads text[], p_options text[] DEFAULT NULL,
    p_ids bigint[] DEFAULT NULL, p_attempts smallint[] DEFAULT NULL, p_deaths smallint[] DEFAULT NULL,
    p_enqueued timestamptz[] DEFAULT NULL, p_since timestamptz[] DEFAULT NULL) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    v_segment smallint;
    v_seqs    bigint[];
    v_now     timestamptz := windlass.now();
    v_lane    windlass.lane;
    v_position regclass;
BEGIN
    SELECT * INTO STRICT v_lane FROM windlass.lane WHERE id = p_lane;
    v_position := v_lane.position;  -- a name: looked up once, not for each job
    PERFORM pg_current_xact_id();
    LOCK TABLE ONLY windlass.ready IN ROW EXCLUSIVE MODE;
    v_segment := windlass.pin_segment();
    IF p_n = 1 THEN
        v_seqs := ARRAY[nextval(v_position)];
        INSERT INTO windlass.ready (segment, lane, seq, id, attempt, deaths, task, payload, options, offered_at, enqueued_at)
        VALUES (v_segment, p_lane, v_seqs[1], p_ids[1], coalesce(p_attempts[1], 1), coalesce(p_deaths[1], 0),
                p_tasks[1], p_payloads[1]::json, p_options[1]::json, coalesce(p_since[1], v_now),
                p_enqueued[1]);
    ELSE
        SELECT array_agg(nextval(v_position)) INTO v_seqs FROM generate_series(1, p_n);
        INSERT INTO windlass.ready (segment, lane, seq, id, attempt, deaths, task, payload, options, offered_at, enqueued_at)
        SELECT v_segment, p_lane, u.seq, u.id, coalesce(u.attempt, 1), coalesce(u.deaths, 0),
               coalesce(u.task, p_tasks[1]), u.payload::json, u.options::json, coalesce(u.since, v_now),
               u.enqueued
          FROM unnest(v_seqs, p_tasks, p_payloads, p_options, p_ids, p_attempts, p_deaths, p_enqueued,
                      p_since)
            AS u (seq, task, payload, options, id, attempt, deaths, enqueued, since);
    END IF;
    -- The numbers are drawn; only now is the idle mark read [rule 10].
    IF pg_sequence_last_value(v_lane.idle) = 1 THEN
        PERFORM windlass.wake(v_lane.queue);
    END IF;
    RETURN v_seqs;
END $$;
