-- Parents and their parts: the split, the offer of parts, and how their ends are folded into the parent.
-- Redrive, retention and the views are in parents_redrive.sql.

-- ==== The split ====

-- Ends a claimed attempt by making its job a parent, with its parts, and offers the first of them [P4].
-- Returns 'split', 'cancelled' (its cancel had been asked for), 'repeated' or 'refused'.
-- Callers: the store. May call: worker. Plan: pinned. Lock: the worker's life row FOR NO KEY UPDATE, so that
-- of two that were sent at once the second sees what the first has done; ACCESS SHARE on claim, as in finish;
-- then those of advance.
CREATE OR REPLACE FUNCTION windlass.split(
    p_worker bigint, p_flush bigint, p_job bigint, p_lane int, p_claim bigint, p_seq bigint,
    p_spans text[], p_sizes bigint[], p_parallel int, p_tolerated int, p_finalizer boolean) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    v_seqs  int8multirange := int8multirange(int8range(p_seq, p_seq + 1));
    v_now   timestamptz;
    v_kind  text;
    c       windlass.claim;
    r       windlass.ready;
BEGIN
    PERFORM windlass.require_read_committed();
    IF NOT windlass.worker_alone(p_worker) THEN
        PERFORM windlass.worker_fence(p_worker);
    END IF;
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    SELECT * INTO c FROM windlass.claim x WHERE x.lane = p_lane AND x.id = p_claim;
    IF EXISTS (SELECT FROM windlass.parent x WHERE x.id = p_job AND x.claim = p_claim)
       AND (c.worker IS NULL OR c.worker = p_worker) THEN
        RETURN 'repeated';
    ELSIF windlass.is_foreign_claim(c.worker, c.seqs, p_worker, v_seqs, p_flush) THEN
        RETURN 'refused';
    ELSIF c.id IS NULL OR windlass.flushed_in(p_claim, p_flush) @> v_seqs THEN
        RETURN 'repeated';
    ELSIF isempty(windlass.unfinished(p_claim, v_seqs)) THEN
        RETURN 'refused';
    END IF;
    SELECT * INTO STRICT r FROM windlass.ready x WHERE x.lane = p_lane AND x.seq = p_seq;
    v_now := windlass.now();
    v_kind := CASE WHEN EXISTS (SELECT FROM windlass.cancel_request q WHERE q.job = p_job) THEN 'cancelled'
                   ELSE 'split' END;
    INSERT INTO windlass.outcome (segment, claim, lane, flush, kind, seqs, n, at)
    VALUES (c.segment, p_claim, p_lane, p_flush, v_kind, v_seqs, 1, v_now);
    IF v_kind = 'cancelled' THEN
        PERFORM windlass.settle(ARRAY[p_job], ARRAY[p_lane], ARRAY[p_claim], v_kind);
        IF pg_sequence_last_value('windlass.awaited'::regclass) = 1 THEN
            PERFORM windlass.wake('!');
        END IF;
        RETURN v_kind;
    END IF;
    DELETE FROM windlass.checkpoint k WHERE k.job = p_job;
    INSERT INTO windlass.parent (id, claim, snapshot, enqueued_at, created_at, queue, priority, task, payload,
                                 options, attempt, deaths, total, pending, size, parallel, tolerated,
                                 finalizer)
    SELECT p_job, p_claim, c.snapshot, windlass.enqueued_of(r), v_now, l.queue, l.priority, r.task, r.payload,
           windlass.unknown_since(r.options, false), r.attempt, r.deaths, cardinality(p_spans),
           cardinality(p_spans),
           (SELECT coalesce(sum(s), 0) FROM unnest(p_sizes) AS s), p_parallel, p_tolerated, p_finalizer
      FROM windlass.lane l WHERE l.id = p_lane;
    INSERT INTO windlass.part (parent, index, span, size)
    SELECT p_job, u.i - 1, u.span::json, u.size FROM unnest(p_spans, p_sizes) WITH ORDINALITY AS u (span,
            size, i);
    -- Its parts pass the gates themselves, but for that of its ordering key, which waits for the parent's end
    -- [F6].
    PERFORM windlass.drop_passes(ARRAY[p_job], 'attempt', true);
    PERFORM windlass.advance(p_job);
    RETURN v_kind;
END $$;

-- ==== Offering parts ====

-- How many parts a parent offers now: so many that p_wanted of them wait to be claimed, and no more than may
-- run beside those that are out. Few wait, so that parts of several parents take turns in a lane [P8].
-- Callers: next_step, advance. May call: worker. Plan: the caller's. Lock: none.
-- core/parents.py has the same rule.
CREATE OR REPLACE FUNCTION windlass.parts_to_offer(p windlass.parent, p_waiting int, p_wanted int) RETURNS int
LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest(least(p.pending, p.parallel - p.out, p_wanted - p_waiting), 0)
$$;

-- Offers the next parts of a parent, the lowest index first [P8].
-- Callers: advance. May call: worker. Plan: ordered. Lock: the parent's row, held by the caller; those of
-- offer.
-- A part that had a job before goes on from what that one did: its checkpoint and steps pass to the new job.
CREATE OR REPLACE FUNCTION windlass.offer_parts(p windlass.parent, p_n int) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_indexes int[];
    v_options text[];
    v_old     bigint[];
    v_new     bigint[];
BEGIN
    SELECT array_agg(t.index), array_agg(windlass.part_options(p, t.index, t.span, t.size)), array_agg(t.job)
      INTO v_indexes, v_options, v_old
      FROM (SELECT x.index, x.span, x.size, x.job FROM windlass.part x
             WHERE x.parent = p.id AND x.state = 'pending' AND x.index >= p.pending_from
             ORDER BY x.index LIMIT p_n) AS t;
    v_new := windlass.offer_part_jobs(p, v_options);
    UPDATE windlass.checkpoint k SET job = u.new FROM unnest(v_old, v_new) AS u (old, new)
     WHERE k.job = u.old;
    IF array_remove(v_old, NULL) <> '{}' THEN
        UPDATE windlass.step s SET job = u.new FROM unnest(v_old, v_new) AS u (old, new)
         WHERE s.job = u.old;
    END IF;
    UPDATE windlass.part t SET state = 'out', job = u.job, attempt = 1, claimed = false
      FROM unnest(v_indexes, v_new) AS u (index, job) WHERE t.parent = p.id AND t.index = u.index;
    UPDATE windlass.parent x
       SET pending = x.pending - cardinality(v_new), out = x.out + cardinality(v_new),
           pending_from = (SELECT max(i) + 1 FROM unnest(v_indexes) AS i)
     WHERE x.id = p.id;
END $$;

-- Offers the finalizer of a parent, whose parts have all ended [P9].
-- Callers: advance. May call: worker. Plan: the caller's. Lock: the parent's row, held by the caller; those
-- of offer.
CREATE OR REPLACE FUNCTION windlass.offer_finalizer(p windlass.parent) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_job bigint := (windlass.offer_part_jobs(p, ARRAY[windlass.part_options(p, -1, 'null', 0)]))[1];
BEGIN
    INSERT INTO windlass.part (parent, index, span, size, state, job, attempt)
    VALUES (p.id, -1, 'null', 0, 'out', v_job, 1);
    UPDATE windlass.parent x SET final = v_job, final_state = 'out' WHERE x.id = p.id;
END $$;

-- Puts the jobs of parts where jobs of their parent's queue and priority wait, and returns their ids, in
-- order.
-- Callers: offer_parts, offer_finalizer. May call: worker. Plan: the caller's. Lock: those of offer. Gates
-- and fair keys are honoured as in enqueue_one; the ordering key is the parent's alone.
CREATE OR REPLACE FUNCTION windlass.offer_part_jobs(p windlass.parent, p_options text[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    v_fair text := p.options ->> 'fair_key';
    v_gate text := windlass.next_gate(NULL, p.queue, p.task, p_options[1]::json);
    v_lane int := windlass.ensure_lane(p.queue, p.priority, windlass.abilities_of(p.options));
    v_now  timestamptz := windlass.now();
    v_ids  bigint[];
BEGIN
    IF v_gate IS NULL AND v_fair IS NULL THEN
        SELECT array_agg(v_lane::bigint << 44 | u.seq ORDER BY u.i) INTO v_ids
          FROM unnest(windlass.offer(v_lane, cardinality(p_options), ARRAY[p.task],
                                     array_fill(p.payload::text, ARRAY[cardinality(p_options)]), p_options))
               WITH ORDINALITY AS u (seq, i);
        RETURN v_ids;
    END IF;
    SELECT array_agg(nextval('windlass.job_id')) INTO v_ids FROM unnest(p_options);
    PERFORM windlass.mark_gates_changed(ARRAY[v_gate]);
    INSERT INTO windlass.held (id, since, enqueued_at, queue, priority, gate, fair_key,
                               task, payload, options)
    SELECT u.id, v_now, v_now, p.queue, p.priority, v_gate, CASE WHEN v_gate IS NULL THEN v_fair END,
           p.task, p.payload, u.options::json
      FROM unnest(v_ids, p_options) AS u (id, options) ORDER BY u.id;
    RETURN v_ids;
END $$;

-- The options of a part's job: those of its parent, but for what is the parent's alone, and which part it is
-- [P4].
-- Callers: offer_parts, offer_finalizer. May call: worker. Plan: the caller's. Lock: none.
CREATE OR REPLACE FUNCTION windlass.part_options(
    p windlass.parent, p_index int, p_span json, p_size bigint) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT (coalesce(p.options::jsonb, '{}')
            - ('{unique_key,ordering_key,after,chunked,group_end,replay_of,unknown_since,expires,'
               'expires_at}')::text[]
            || jsonb_build_object('part', jsonb_build_object(
                   'parent', p.id, 'index', p_index, 'total', p.total, 'span', p_span::text, 'size', p_size,
                   'created_at', date_part('epoch', p.created_at))))::text
$$;

-- ==== Folding ends ====

-- Brings a parent up to date with its parts and takes every step that it can take now [P9]. Returns its
-- state, NULL where there is no such parent, or 'busy' where somebody has held it for longer than p_wait ms:
-- neither a worker's flush nor promote may wait for an operator's open transaction. p_wanted: how many of its
-- parts are to wait for a claim; p_claimed: jobs of parts that were just claimed. Callers: split,
-- cancel_parent, redrive_parts, reopen_parent_of, set_parent, retry; the store after a claim that took parts,
-- after a flush that ended some, and in promote. May call: worker. Plan: pinned. Lock: the parent's row,
-- until the transaction ends; then those of offer. Statements after the lock see all that ended or was
-- claimed before it. Later ends are folded by whoever commits them, or by promote: each end is folded once,
-- and the decision that follows is made once, under this lock.
CREATE OR REPLACE FUNCTION windlass.advance(
    p_parent bigint, p_wait int DEFAULT NULL, p_wanted int DEFAULT 1,
    p_claimed bigint[] DEFAULT '{}') RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    p         windlass.parent;
    v_waiting int;
BEGIN
    PERFORM windlass.require_read_committed();
    IF p_wait IS NOT NULL THEN
        BEGIN
            PERFORM set_config('lock_timeout', greatest(p_wait, 1) || 'ms', true);
            PERFORM FROM windlass.parent x WHERE x.id = p_parent FOR UPDATE;
            PERFORM set_config('lock_timeout', greatest(p_wait, 100) || 'ms', true);
        EXCEPTION WHEN lock_not_available THEN
            RETURN 'busy';
        END;
    END IF;
    PERFORM FROM windlass.parent x WHERE x.id = p_parent FOR UPDATE;
    IF NOT FOUND THEN
        DELETE FROM windlass.part_event e WHERE e.parent = p_parent;
        RETURN NULL;
    END IF;
    UPDATE windlass.part t SET claimed = true WHERE t.job = ANY (p_claimed) AND NOT t.claimed;
    PERFORM windlass.fold_ends(p_parent);
    LOOP
        SELECT * INTO p FROM windlass.parent x WHERE x.id = p_parent;
        v_waiting := (SELECT count(*) FROM windlass.part t
                       WHERE t.parent = p_parent AND t.state = 'out' AND NOT t.claimed AND t.index >= 0);
        CASE windlass.next_step(p, v_waiting, p_wanted)
            WHEN 'offer' THEN
                PERFORM windlass.offer_parts(p, windlass.parts_to_offer(p, v_waiting, p_wanted));
            WHEN 'finalize' THEN PERFORM windlass.offer_finalizer(p);
            WHEN 'succeed' THEN PERFORM windlass.end_parent(p, 'succeeded', NULL);
            WHEN 'cancel' THEN PERFORM windlass.end_parent(p, 'cancelled', NULL);
            WHEN 'die' THEN
                PERFORM windlass.end_parent(p, 'dead', CASE WHEN p.dead + p.cancelled > p.tolerated
                    THEN format('%s of its parts failed, %s %s tolerated', p.dead + p.cancelled, p.tolerated,
                                CASE p.tolerated WHEN 1 THEN 'is' ELSE 'are' END)
                    ELSE 'its finalizer is dead'
                         || coalesce(': ' || (SELECT t.error FROM windlass.part t
                                               WHERE t.parent = p.id AND t.index = -1), '') END);
            ELSE RETURN p.state;
        END CASE;
    END LOOP;
END $$;

-- Folds the ends of parts that were noted into their parent, and forgets the notes.
-- Callers: advance. May call: worker. Plan: the caller's. Lock: the parent's row, held by the caller. The end
-- of a job that no longer runs the part is ignored.
CREATE OR REPLACE FUNCTION windlass.fold_ends(p_parent bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    e       windlass.part_event;
    v_size  bigint;
    v_state text;
BEGIN
    FOR e IN DELETE FROM windlass.part_event x WHERE x.parent = p_parent RETURNING x.* LOOP
        v_state := CASE WHEN e.kind IN ('succeeded', 'dead') THEN e.kind ELSE 'cancelled' END;
        UPDATE windlass.part t
           SET state = v_state, attempt = e.attempt, error = e.error,
               records = CASE WHEN v_state = 'succeeded' THEN e.records ELSE 0 END
         WHERE t.parent = p_parent AND t.index = e.index AND t.job = e.job AND t.state = 'out'
        RETURNING t.size INTO v_size;
        CONTINUE WHEN NOT FOUND;
        IF e.index < 0 THEN
            UPDATE windlass.parent p
               SET final_state = v_state,
                   result = (SELECT r.result FROM windlass.result r
                              WHERE r.job = e.job AND v_state = 'succeeded' AND r.result IS NOT NULL
                              ORDER BY r.at DESC LIMIT 1)
             WHERE p.id = p_parent;
        ELSE
            UPDATE windlass.parent p
               SET out = p.out - 1, succeeded = p.succeeded + (v_state = 'succeeded')::int,
                   dead = p.dead + (v_state = 'dead')::int,
                   cancelled = p.cancelled + (v_state = 'cancelled')::int,
                   done = p.done + CASE WHEN v_state = 'succeeded' THEN v_size ELSE 0 END,
                   records = p.records + CASE WHEN v_state = 'succeeded' THEN e.records ELSE 0 END
             WHERE p.id = p_parent;
        END IF;
    END LOOP;
END $$;

-- What a parent does next, by its parts' states [P9]: wait, offer, finalize, succeed, die or cancel.
-- Callers: advance. May call: worker. Plan: the caller's. Lock: none.
-- core/parents.py says the same.
CREATE OR REPLACE FUNCTION windlass.next_step(
    p windlass.parent, p_waiting int, p_wanted int) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p.state <> 'waiting' THEN 'wait'
                WHEN p.cancelling THEN CASE WHEN p.out > 0 OR p.final_state = 'out' THEN 'wait'
                                            ELSE 'cancel' END
                WHEN windlass.parts_to_offer(p, p_waiting, p_wanted) > 0 THEN 'offer'
                WHEN p.pending > 0 OR p.out > 0 THEN 'wait'
                WHEN p.dead + p.cancelled > p.tolerated THEN 'die'
                WHEN NOT p.finalizer THEN 'succeed'
                WHEN p.final_state IS NULL THEN 'finalize'
                WHEN p.final_state = 'succeeded' THEN 'succeed'
                WHEN p.final_state = 'dead' THEN 'die'
                WHEN p.final_state = 'cancelled' THEN 'cancel'
                ELSE 'wait' END
$$;

-- Ends a parent: its key is freed, and whoever waits for it is woken [P9].
-- Callers: advance. May call: worker. Plan: the caller's. Lock: the parent's row, held by the caller; those
-- of settle.
CREATE OR REPLACE FUNCTION windlass.end_parent(p windlass.parent, p_state text, p_reason text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE windlass.parent x SET state = p_state, reason = p_reason, finished_at = windlass.now()
     WHERE x.id = p.id;
    INSERT INTO windlass.ended_aside (queue, task, kind) VALUES (p.queue, p.task, p_state);
    PERFORM windlass.settle(ARRAY[p.id], NULL, NULL, p_state, p.snapshot);
    IF pg_sequence_last_value('windlass.awaited'::regclass) = 1 THEN
        PERFORM windlass.wake('!');
    END IF;
END $$;

-- Notes how jobs of parts ended, for their parents to fold in.
-- Callers: settle, in the transaction that ends the jobs. May call: worker. Plan: pinned. Lock: none.
-- It only adds rows, so that finishes, rescues and cancels of one parent's parts never wait for each other.
CREATE OR REPLACE FUNCTION windlass.note_part_ends(p_jobs bigint[], p_kind text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO windlass.part_event (parent, index, job, kind, attempt, records, error)
    SELECT t.parent, t.index, t.job, p_kind, coalesce((l.ready).attempt, d.attempt, greatest(t.attempt, 1)),
           windlass.records_of(k.data),
           CASE WHEN p_kind = 'dead'
                THEN coalesce((d.errors -> -1 ->> 'type') || ': ' || (d.errors -> -1 ->> 'message'),
                              d.reason) END
      FROM windlass.part t
      LEFT JOIN windlass.dead d ON d.id = t.job
      LEFT JOIN windlass.checkpoint k ON k.job = t.job
      LEFT JOIN LATERAL windlass.locate(t.job) AS l ON true
     WHERE t.job = ANY (p_jobs);
END $$;

-- The number of records in a checkpoint: the integer n of its data, if that is an object with one; else 0.
-- Callers: note_part_ends, saved_of, the view job_part. May call: worker, reader. Plan: the caller's.
-- Lock: none.
CREATE OR REPLACE FUNCTION windlass.records_of(p_data json) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN json_typeof(p_data) = 'object' AND json_typeof(p_data -> 'n') = 'number'
                     AND p_data ->> 'n' ~ '^-?[0-9]{1,18}$'
                THEN (p_data ->> 'n')::bigint ELSE 0 END
$$;

-- Parents that have not folded in some ends of their parts, up to p_most; in random order, so that many
-- locked ones do not hold up the others for long [S2].
-- Callers: the store's promote. May call: worker. Plan: free. Lock: none.
CREATE OR REPLACE FUNCTION windlass.parents_to_advance(p_most int) RETURNS TABLE (parent bigint)
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    RETURN QUERY
    SELECT e.parent FROM (SELECT DISTINCT x.parent FROM windlass.part_event x) AS e
     ORDER BY random() LIMIT p_most;
END $$;

-- ==== Cancelling ====

-- Makes a parent offer no more parts, and cancels those that are out [P9]: 'requested', or 'finished' where
-- it has ended. NULL: there is no such parent.
-- Callers: cancel, delete. May call: worker. Plan: pinned. Lock: the parent's row, then the lanes of its
-- parts, in order. Nobody who holds a lane locks a parent, so no two of these deadlock.
CREATE OR REPLACE FUNCTION windlass.cancel_parent(p_parent bigint) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_state text;
    v_jobs  bigint[];
BEGIN
    SELECT p.state INTO v_state FROM windlass.parent p WHERE p.id = p_parent FOR UPDATE;
    IF v_state IS DISTINCT FROM 'waiting' THEN
        RETURN CASE WHEN v_state IS NOT NULL THEN 'finished' END;
    END IF;
    UPDATE windlass.parent p SET cancelling = true WHERE p.id = p_parent;
    DELETE FROM windlass.cancel_request q WHERE q.job = p_parent;
    v_jobs := ARRAY(SELECT t.job FROM windlass.part t
                     WHERE t.parent = p_parent AND t.state <> 'succeeded' AND t.job IS NOT NULL
                       AND t.state = 'out');
    PERFORM windlass.lock_lanes_of(v_jobs);
    PERFORM windlass.cancel_job(u.job) FROM unnest(v_jobs) AS u (job);
    PERFORM windlass.advance(p_parent);
    RETURN 'requested';
END $$;

-- ==== Statements that the store sends ====

-- :unheard_cancels
-- Parents whose cancel was requested while they were being split, up to $1, in random order as in
-- parents_to_advance.
-- Callers: PostgresStore.promote. Lock: none.
SELECT p.id FROM windlass.cancel_request q JOIN windlass.parent p ON p.id = q.job WHERE p.state = 'waiting'
 ORDER BY random() LIMIT $1
