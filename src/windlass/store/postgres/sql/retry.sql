-- The operator's retry [O6]: 'retried', 'unchanged' or 'not_found'. Attempts start anew, failures stay known.
-- Callers: users, the store. Lock: the row it moves; those of offer; those of redrive_parts or reopen_for first, where it
-- is a parent or a part [P9].
CREATE OR REPLACE FUNCTION windlass.retry(job bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    d        windlass.dead;
    w        windlass.deferred;
    v_key    text;
    v_state  text;
    v_parent bigint;
    v_parts  int;
    v_holder bigint;
    v_held   boolean;
BEGIN
    SELECT p.state INTO v_state FROM windlass.parent p WHERE p.id = retry.job;
    IF v_state = 'dead' THEN
        SELECT r.parts, coalesce(r.holder, r.final) INTO v_parts, v_holder FROM windlass.redrive_parts(retry.job) AS r;
        RETURN CASE WHEN v_parts > 0 AND v_holder IS NULL THEN 'retried' ELSE 'unchanged' END;
    ELSIF v_state IS NOT NULL THEN
        RETURN 'unchanged';
    ELSIF EXISTS (SELECT FROM windlass.part t WHERE t.job = retry.job) THEN
        SELECT r.parent, r.held INTO v_parent, v_held FROM windlass.reopen_for(retry.job) AS r;
        IF v_held THEN
            RETURN 'unchanged';
        END IF;
    END IF;
    SELECT * INTO d FROM windlass.dead x WHERE x.id = retry.job FOR UPDATE;
    IF FOUND THEN
        v_key := d.options ->> 'unique_key';
        IF v_key IS NOT NULL THEN
            INSERT INTO windlass.unique_key (key, job) VALUES (v_key, d.id) ON CONFLICT DO NOTHING;
            IF NOT FOUND THEN
                RETURN 'unchanged';
            END IF;
        END IF;
        DELETE FROM windlass.dead x WHERE x.id = d.id;
        DELETE FROM windlass.ended_otherwise o WHERE o.job = d.id;
        INSERT INTO windlass.failure (segment, job, at, attempt, type, message, traceback)
        SELECT windlass.pin_segment(), d.id, to_timestamp((e ->> 'at')::float8), (e ->> 'attempt')::smallint,
               e ->> 'type', e ->> 'message', e ->> 'traceback'
          FROM json_array_elements(d.errors) AS e
         WHERE NOT EXISTS (SELECT FROM windlass.failure f WHERE f.job = d.id);
        PERFORM windlass.offer_one(d.queue, d.priority, d.task, d.payload, windlass.unknown_since(d.options, false), d.id,
                                   1::smallint, 0::smallint, d.enqueued_at);
        IF v_parent IS NOT NULL THEN
            PERFORM windlass.advance(v_parent);
        END IF;
        RETURN 'retried';
    END IF;
    -- One that is to replace another waits for that one's end.
    DELETE FROM windlass.deferred x WHERE x.id = retry.job AND x.replaces IS NULL RETURNING * INTO w;
    IF FOUND THEN
        PERFORM windlass.offer_one(w.queue, w.priority, w.task, w.payload, w.options, w.id,
                                   CASE WHEN w.retrying THEN 1 ELSE w.attempt END::smallint, w.deaths, w.enqueued_at);
        RETURN 'retried';
    END IF;
    -- As in finish: the snapshot that says where the job is must be younger than any rotation that moved it.
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    IF EXISTS (SELECT FROM windlass.locate(retry.job)) OR EXISTS (SELECT FROM windlass.held h WHERE h.id = retry.job)
       OR EXISTS (SELECT FROM windlass.deferred x WHERE x.id = retry.job) THEN
        RETURN 'unchanged';
    END IF;
    RETURN 'not_found';
END $$;
