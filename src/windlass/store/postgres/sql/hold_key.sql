-- Takes a unique key for a job, or says what its holder means for it [E6].
-- Callers: enqueue_one. Lock: the key's row until the transaction ends.
-- status NULL: the key is ours. 'skipped' or 'rerun': the twin stands for the job. 'replaced': the key is ours
-- now; `replaces` names the twin where it waits in a lane, to be taken back by replace_step (no producer takes a
-- lane lock). A twin that waits off the logs is simply removed.
CREATE OR REPLACE FUNCTION windlass.hold_key(
    p_key text, p_job bigint, p_on_conflict text, p_spec json, OUT twin bigint, OUT status text, OUT replaces bigint)
LANGUAGE plpgsql AS $$
DECLARE
    u         windlass.unique_key;
    v_running boolean;
BEGIN
    LOOP
        INSERT INTO windlass.unique_key (key, job) VALUES (p_key, p_job) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN;
        END IF;
        SELECT * INTO u FROM windlass.unique_key WHERE key = p_key FOR UPDATE;
        EXIT WHEN FOUND;
    END LOOP;
    IF u.job = 0 THEN
        UPDATE windlass.unique_key SET job = p_job WHERE key = p_key;  -- see line_up
        RETURN;
    END IF;
    -- As in finish: the snapshots that say where the twin is must be younger than any rotation that moved it.
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    IF NOT windlass.is_unfinished(u.job) THEN
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            -- An old snapshot misses a twin that a rotation has carried since.
            RAISE EXCEPTION 'job %, which holds the key, is not visible to this transaction', u.job
                USING ERRCODE = 'serialization_failure', HINT = 'Run the transaction again.';
        END IF;
        -- Its job has ended while this transaction or another held the key: see settle. The new job takes it over, and
        -- with it any edit that was waiting for a rerun.
        UPDATE windlass.unique_key SET job = p_job, rerun = NULL, touched = NULL WHERE key = p_key;
        DELETE FROM windlass.unsettled WHERE job = u.job;
        RETURN;
    END IF;
    twin := u.job;
    IF p_on_conflict = 'reject' THEN
        RAISE EXCEPTION 'unique key % is held by job %', quote_literal(p_key), u.job USING ERRCODE = 'WL001',
            DETAIL = u.job::text, HINT = 'Wait until that job has ended, or use on_conflict skip or replace.';
    END IF;
    -- A parent whose parts run has begun, too.
    v_running := EXISTS (SELECT FROM windlass.locate(u.job) l WHERE l.claim IS NOT NULL AND l.kind IS NULL)
              OR EXISTS (SELECT FROM windlass.parent p WHERE p.id = u.job);
    IF v_running THEN
        UPDATE windlass.unique_key SET rerun = p_spec, touched = NULL WHERE key = p_key;
        status := 'rerun';
    ELSIF p_on_conflict = 'skip' THEN
        -- Remembered all the same: the twin may be claimed before this transaction commits. See settle.
        UPDATE windlass.unique_key SET rerun = p_spec, touched = pg_current_xact_id()
         WHERE key = p_key AND (rerun IS NULL OR touched IS NOT NULL);
        status := 'skipped';
    ELSE
        status := 'replaced';
        DELETE FROM windlass.held WHERE id = u.job;
        IF NOT FOUND THEN
            DELETE FROM windlass.deferred d WHERE d.id = u.job RETURNING d.replaces INTO replaces;
            IF NOT FOUND THEN
                replaces := u.job;
            END IF;
        END IF;
        UPDATE windlass.unique_key SET job = p_job, rerun = NULL, touched = NULL WHERE key = p_key;
        IF replaces IS NULL THEN
            PERFORM windlass.drop_passes(ARRAY[u.job], 'all', true);
        END IF;
        IF replaces IS DISTINCT FROM u.job THEN
            -- It is gone now, and has not succeeded: see follow.
            INSERT INTO windlass.ended_otherwise (job, at, kind) VALUES (u.job, windlass.now(), 'replaced')
            ON CONFLICT DO NOTHING;
        END IF;
        DELETE FROM windlass.checkpoint WHERE checkpoint.job = u.job AND replaces IS NULL;
    END IF;
END $$;
