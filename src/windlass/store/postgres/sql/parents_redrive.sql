-- Redriving parts, changing `parallel`, removing parents; and what readers see of parents.

-- ==== Running parts again ====

-- Runs the dead and cancelled parts of a parent again, each from its last checkpoint; returns how many [P9].
-- Callers: users, the store. May call: worker. Plan: free. Lock: those of redrive_parts.
CREATE OR REPLACE FUNCTION windlass.redrive(parent bigint) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    r record;
BEGIN
    SELECT * INTO r FROM windlass.redrive_parts(redrive.parent);
    IF r.holder IS NOT NULL THEN
        RAISE EXCEPTION 'the unique key of parent % is held by job %', redrive.parent, r.holder
            USING ERRCODE = 'WL001', DETAIL = r.holder::text, HINT = 'Cancel that job, or wait for its end.';
    END IF;
    IF r.final IS NOT NULL THEN
        RAISE EXCEPTION 'parts of parent % cannot run again while its finalizer, job %, has not ended',
            redrive.parent, r.final
            USING ERRCODE = 'WL019', DETAIL = r.final::text,
                  HINT = 'Wait for its end, or cancel that job first.';
    END IF;
    RETURN r.parts;
END $$;

-- Makes the failed parts of a parent wait to be offered again, and those that a cancel kept from it [P9].
-- `parts`: how many, counting a finalizer that did not succeed. `holder`: the job that holds the parent's
-- unique key by now; `final`: its finalizer, if that waits or runs: it must not run beside parts. Where
-- either is set, nothing was changed.
-- Callers: redrive, retry. May call: worker. Plan: pinned. Lock: the parent's row; the dead letters of its
-- parts; then those of advance.
CREATE OR REPLACE FUNCTION windlass.redrive_parts(
    p_parent bigint, OUT parts int, OUT holder bigint, OUT final bigint)
LANGUAGE plpgsql AS $$
DECLARE
    p windlass.parent;
BEGIN
    parts := 0;
    PERFORM windlass.advance(p_parent);
    SELECT * INTO p FROM windlass.parent x WHERE x.id = p_parent;
    parts := coalesce(p.dead + p.cancelled + CASE WHEN p.cancelling THEN p.pending ELSE 0 END
                      + CASE WHEN p.final_state IN ('dead', 'cancelled') THEN 1 ELSE 0 END, 0);
    IF parts = 0 THEN
        RETURN;
    END IF;
    IF p.final_state = 'out' THEN
        final := p.final;
        RETURN;
    END IF;
    holder := windlass.reopen_parent(p_parent);
    IF holder IS NOT NULL THEN
        RETURN;
    END IF;
    DELETE FROM windlass.dead d
     WHERE d.id IN (SELECT t.job FROM windlass.part t
                     WHERE t.parent = p_parent AND t.state <> 'succeeded' AND t.job IS NOT NULL
                       AND t.state = 'dead');
    UPDATE windlass.part t SET state = 'pending', error = NULL
     WHERE t.parent = p_parent AND t.state <> 'succeeded' AND t.job IS NOT NULL
       AND t.state IN ('dead', 'cancelled');
    UPDATE windlass.parent x
       SET pending = x.pending + x.dead + x.cancelled, dead = 0, cancelled = 0, pending_from = 0
     WHERE x.id = p_parent;
    PERFORM windlass.advance(p_parent);
END $$;

-- Makes a parent wait for its parts again, with its unique key. Returns NULL, or the job that holds the key
-- by now: then nothing was changed. A finalizer that did not succeed will run again, unless it is p_but, the
-- one job that is brought back. With p_but the other parts stay as a cancel has left them; without it the
-- cancel is forgotten.
-- Callers: redrive_parts, reopen_parent_of. May call: worker. Plan: the caller's. Lock: the parent's row,
-- held by the caller; the key's row.
CREATE OR REPLACE FUNCTION windlass.reopen_parent(p_parent bigint, p_but bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    p        windlass.parent;
    v_key    text;
    v_holder bigint;
BEGIN
    SELECT * INTO p FROM windlass.parent x WHERE x.id = p_parent;
    v_key := p.options ->> 'unique_key';
    WHILE p.state <> 'waiting' AND v_key IS NOT NULL LOOP
        INSERT INTO windlass.unique_key (key, job) VALUES (v_key, p.id) ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND;
        SELECT u.job INTO v_holder FROM windlass.unique_key u WHERE u.key = v_key;
        IF v_holder = p.id THEN
            -- Its end has not freed the key yet: see settle. Where somebody does so now, it is ours no more.
            DELETE FROM windlass.unsettled u WHERE u.job = p.id;
            EXIT WHEN EXISTS (SELECT FROM windlass.unique_key u WHERE u.key = v_key AND u.job = p.id);
        ELSIF v_holder IS NOT NULL THEN
            RETURN v_holder;
        END IF;
    END LOOP;
    IF p.final_state IN ('dead', 'cancelled') AND p.final IS DISTINCT FROM p_but THEN
        DELETE FROM windlass.dead d WHERE d.id = p.final;
        DELETE FROM windlass.part t WHERE t.parent = p.id AND t.index = -1;
        UPDATE windlass.parent x SET final = NULL, final_state = NULL WHERE x.id = p.id;
    END IF;
    PERFORM windlass.rejoin_groups(p.id);
    DELETE FROM windlass.cancel_request q WHERE q.job = p.id;
    DELETE FROM windlass.ended_otherwise o WHERE o.job = p.id;
    UPDATE windlass.parent x
       SET state = 'waiting', cancelling = x.cancelling AND p_but IS NOT NULL, finished_at = NULL,
       reason = NULL
     WHERE x.id = p.id;
    RETURN NULL;
END $$;

-- Before a dead job is brought back: if it belongs to a part, the part is out again and its parent waits
-- again [P9]. Returns that parent, or NULL where there is none. `held`: another job holds the parent's key,
-- or its finalizer waits or runs, which it must not beside parts; then nothing was changed.
-- Callers: retry. May call: worker. Plan: pinned. Lock: the parent's row, before that of the dead job, as in
-- redrive_parts.
CREATE OR REPLACE FUNCTION windlass.reopen_parent_of(p_job bigint, OUT parent bigint, OUT held boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_index int;
BEGIN
    SELECT t.parent INTO parent FROM windlass.part t
     WHERE t.job = p_job AND EXISTS (SELECT FROM windlass.dead d WHERE d.id = p_job);
    IF windlass.advance(parent) IS NULL THEN
        parent := NULL;
        RETURN;
    END IF;
    SELECT t.index INTO v_index FROM windlass.part t
     WHERE t.parent = reopen_parent_of.parent AND t.job = p_job AND t.state = 'dead';
    IF FOUND THEN
        -- It may be about to be deleted.
        PERFORM FROM windlass.dead d WHERE d.id = p_job FOR UPDATE;
    END IF;
    IF NOT FOUND THEN
        parent := NULL;
        RETURN;
    END IF;
    held := EXISTS (SELECT FROM windlass.parent p WHERE p.id = reopen_parent_of.parent
                       AND p.final_state = 'out');
    IF held THEN
        RETURN;
    END IF;
    held := windlass.reopen_parent(parent, p_job) IS NOT NULL;
    IF held THEN
        RETURN;
    END IF;
    UPDATE windlass.part t SET state = 'out', error = NULL
     WHERE t.parent = reopen_parent_of.parent AND t.index = v_index;
    UPDATE windlass.parent p
       SET dead = p.dead - (v_index >= 0)::int, out = p.out + (v_index >= 0)::int,
           final_state = CASE WHEN v_index < 0 THEN 'out' ELSE p.final_state END
     WHERE p.id = reopen_parent_of.parent;
END $$;

-- ==== Settings ====

-- Changes how many parts of a parent may run at a time, while it runs; NULL: any number [P8]. False: there is
-- no such parent.
-- Callers: users, the store. May call: worker. Plan: indexed. Lock: those of advance.
CREATE OR REPLACE FUNCTION windlass.set_parent(parent bigint, parallel int) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF parallel < 1 THEN
        RAISE EXCEPTION 'parallel of parent % cannot be %', parent, parallel
            USING ERRCODE = 'WL005', HINT = 'Write 1 or more, or NULL for any number.';
    END IF;
    UPDATE windlass.parent p SET parallel = set_parent.parallel WHERE p.id = set_parent.parent;
    RETURN windlass.advance(parent) IS NOT NULL;
END $$;

-- ==== Removing ====

-- Removes an ended parent.
-- Callers: delete, expire. May call: worker. Plan: indexed. Lock: the parent's row, which the caller holds.
-- It goes at once, so that nobody can redrive a parent that has lost some of its parts; those follow in
-- bounded steps (see drop_parts). Their jobs are jobs like others.
CREATE OR REPLACE FUNCTION windlass.drop_parent(p_parent bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM windlass.part_event e WHERE e.parent = p_parent;
    DELETE FROM windlass.parent p WHERE p.id = p_parent;
    INSERT INTO windlass.dropped_parent (id) VALUES (p_parent);
END $$;

-- One bounded step: removes parts of parents that are gone, with their checkpoints. Returns how many.
-- Callers: expire. May call: worker. Plan: pinned, nested. Lock: the rows it removes, and those of
-- dropped_parent, without waiting.
CREATE OR REPLACE FUNCTION windlass.drop_parts(p_limit int) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    v_parents bigint[];
    v_jobs    bigint[];
    v_parts   int;
BEGIN
    v_parents := ARRAY(SELECT d.id FROM windlass.dropped_parent d ORDER BY d.id LIMIT p_limit
                          FOR UPDATE SKIP LOCKED);
    WITH step AS MATERIALIZED (
        SELECT x.parent, x.index
          FROM unnest(v_parents) AS d (id)
         CROSS JOIN LATERAL (SELECT t.parent, t.index FROM windlass.part t WHERE t.parent = d.id
                              LIMIT p_limit) AS x
         LIMIT p_limit),
    gone AS (
        DELETE FROM windlass.part t USING step s WHERE t.parent = s.parent AND t.index = s.index
     RETURNING t.job)
    SELECT count(*), array_agg(job) INTO v_parts, v_jobs FROM gone;
    DELETE FROM windlass.checkpoint k
     WHERE k.job IN (SELECT x.job FROM windlass.checkpoint x WHERE x.job = ANY (v_jobs)
                        FOR UPDATE SKIP LOCKED);
    DELETE FROM windlass.dropped_parent d
     WHERE d.id = ANY (v_parents) AND NOT EXISTS (SELECT FROM windlass.part t WHERE t.parent = d.id);
    RETURN v_parts;
END $$;

-- ==== Reading ====

-- The parents that were split last, in order, up to p_limit; p_active: of those that have not ended.
-- Callers: the store's parents. May call: worker, reader. Plan: pinned, ordered. Lock: none.
CREATE OR REPLACE FUNCTION windlass.list_parents(
    p_active boolean, p_limit int) RETURNS TABLE (id bigint, place bigint)
LANGUAGE plpgsql STABLE ROWS 50 AS $$
BEGIN
    IF p_active THEN
        RETURN QUERY SELECT x.id, row_number() OVER () FROM (
            SELECT p.id FROM windlass.parent p WHERE p.state = 'waiting'
             ORDER BY p.created_at DESC, p.id + 0 DESC LIMIT p_limit) AS x;
    ELSE
        RETURN QUERY SELECT x.id, row_number() OVER () FROM (
            SELECT p.id FROM windlass.parent p ORDER BY p.created_at DESC, p.id + 0 DESC LIMIT p_limit) AS x;
    END IF;
END $$;

-- How far the unfinished parts of a parent have come, by their checkpoints.
-- Callers: the view job_parent. May call: worker, reader. Plan: pinned, nested. Lock: none.
CREATE OR REPLACE FUNCTION windlass.saved_of(p_parent bigint, OUT done bigint, OUT records bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT coalesce(sum(k.done), 0), coalesce(sum(windlass.records_of(k.data)), 0) INTO done, records
      FROM windlass.part t CROSS JOIN LATERAL (SELECT x.done, x.data FROM windlass.checkpoint x
                                                WHERE x.job = t.job LIMIT 1) AS k
     WHERE t.parent = p_parent AND t.state <> 'succeeded' AND t.job IS NOT NULL AND t.index >= 0;
END $$;

-- The states of a parent's parts but for those that have succeeded, as runs of equal ones: from index `first`
-- on so many. What was offered and has not ended well is looked at part by part; what was not offered yet is
-- mostly the rest from some index on, which the parent's count shows.
-- Callers: the store's part_states. May call: worker, reader. Plan: pinned, ordered. Lock: none.
-- STABLE: as of the caller's moment.
CREATE OR REPLACE FUNCTION windlass.part_runs(p windlass.parent)
RETURNS TABLE (first int, n int, state text)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_pending int := (SELECT t.index FROM windlass.part t
                       WHERE t.parent = p.id AND t.state = 'pending' AND t.index >= p.pending_from
                       ORDER BY t.index LIMIT 1);
BEGIN
    RETURN QUERY
    SELECT t.index, 1, CASE WHEN t.state = 'out' THEN coalesce(s.state, 'cancelled') ELSE t.state END
      FROM windlass.part t
      LEFT JOIN LATERAL (SELECT * FROM windlass.standing_of(t.job)
                          WHERE t.state = 'out' OFFSET 0) AS s ON true
     WHERE t.parent = p.id AND t.state <> 'succeeded' AND t.job IS NOT NULL AND t.state <> 'pending'
       AND t.index >= 0;
    IF p.total - v_pending = p.pending THEN
        RETURN QUERY SELECT v_pending, p.pending, 'waiting';
    ELSE
        RETURN QUERY
        SELECT min(x.index), count(*)::int, 'waiting'
          FROM (SELECT t.index, t.index - row_number() OVER (ORDER BY t.index) AS run
                  FROM windlass.part t WHERE t.parent = p.id AND t.state = 'pending') AS x
         GROUP BY x.run;
    END IF;
END $$;

-- Every parent and how far its parts are, one row each [P4] [P9]. Lock: none.
--   total                                     parts in all; out: offered and not ended
--   succeeded, dead, cancelled, out           how many have that state; the rest was never offered
--   parallel, tolerated                       how many run at a time, and how many may fail
--   size, done, records                       their sizes together, and how much is done, as saved
--   final                                     the finalizer's job, once all parts have ended
CREATE OR REPLACE VIEW windlass.job_parent AS
SELECT p.id, p.task, p.queue, p.state, p.total, p.succeeded, p.dead, p.cancelled, p.out, p.parallel,
       p.tolerated, p.size,
       (p.done + s.done)::bigint AS done, (p.records + s.records)::bigint AS records, p.final,
       p.cancelling AS cancel_requested, p.reason, p.enqueued_at, p.created_at, p.finished_at
  FROM windlass.parent p
 CROSS JOIN LATERAL windlass.saved_of(p.id) AS s;

-- Every part of every parent, one row each, the finalizer as index -1 [P4]. Lock: none.
--   parent, index (from 0), total   which part it is
--   span, size                      what it covers, in the splitter's words and unit
--   state                           waiting before it is offered, then the state of its job
--   job, attempt                    the job that runs it, or ran it last
--   done, records                   its progress, by what it has saved
--   error                           what it died of;  created_at: when the parent was split
CREATE OR REPLACE VIEW windlass.job_part AS
SELECT t.parent, t.index, p.total, t.span, t.size,
       CASE t.state WHEN 'pending' THEN 'waiting' WHEN 'out' THEN coalesce(s.state, 'cancelled')
            ELSE t.state END AS state,
       CASE WHEN t.state <> 'pending' THEN t.job END AS job,
       CASE t.state WHEN 'pending' THEN 0::smallint ELSE coalesce(s.attempt, t.attempt) END AS attempt,
       CASE WHEN t.state = 'succeeded' OR s.state = 'succeeded' THEN t.size
            ELSE coalesce(k.done, 0) END AS done,
       CASE WHEN t.state = 'succeeded' THEN t.records ELSE windlass.records_of(k.data) END AS records,
       t.error, p.created_at
  FROM windlass.part t
  JOIN windlass.parent p ON p.id = t.parent
  LEFT JOIN windlass.checkpoint k ON k.job = t.job
  LEFT JOIN LATERAL (SELECT * FROM windlass.standing_of(t.job) WHERE t.state = 'out' OFFSET 0) AS s ON true;

-- ==== Statements that the store sends ====

-- :parent
-- One parent.
-- Callers: Parents. Lock: none.
SELECT * FROM windlass.job_parent WHERE id = $1

-- :parents
-- Parents, the one split last first; with $1 only those that have not ended.
-- Callers: Parents. Lock: none.
SELECT p.* FROM windlass.list_parents($1, $2) AS l JOIN windlass.job_parent p ON p.id = l.id ORDER BY l.place

-- :parts
-- Parts of a parent by index, $3 of them from $2 on, each by itself, so that no part outside of them is
-- looked at, however many the planner believes there are.
-- Callers: Parents. Lock: none.
SELECT p.*
  FROM generate_series(greatest($2::int, 0), (SELECT least(greatest($2::int, 0)::bigint + $3::bigint,
                                                           x.total) - 1
                                                FROM windlass.parent x WHERE x.id = $1)) AS g (index)
 CROSS JOIN LATERAL (SELECT * FROM windlass.job_part x WHERE x.parent = $1 AND x.index = g.index
                     OFFSET 0) AS p
 ORDER BY g.index

-- :part_states
-- How many parts a parent has, and the states of those that have not succeeded.
-- Callers: Parents. Lock: none.
SELECT p.total, r.first, r.n, r.state
  FROM windlass.parent p LEFT JOIN LATERAL windlass.part_runs(p) AS r ON true WHERE p.id = $1
