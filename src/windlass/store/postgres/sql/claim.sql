-- Leases the next jobs of one lane to one worker, commits, and only then answers [rule 2].
-- Callers: the store, outside of any transaction. Lock: the lane, then what claim_take takes.
-- A procedure, because a function could not commit: its jobs would be given out under the caller's isolation
-- level and its lane would stay locked for as long as the caller leaves the answer unread. Waiting for the lock
-- shares a lane evenly between workers; p_wait (ms) bounds it, and then the answer is 'busy', not 'empty'.
CREATE OR REPLACE PROCEDURE windlass.claim(
    p_lane int, p_worker bigint, p_limit int, p_wait int,
    INOUT status text DEFAULT NULL, INOUT claim bigint DEFAULT NULL, INOUT seqs bigint[] DEFAULT NULL,
    INOUT ids bigint[] DEFAULT NULL, INOUT tasks text[] DEFAULT NULL, INOUT payloads text[] DEFAULT NULL,
    INOUT options text[] DEFAULT NULL, INOUT attempts smallint[] DEFAULT NULL,
    INOUT deaths smallint[] DEFAULT NULL, INOUT enqueued float8[] DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
    v_space int := windlass.lock_space();
BEGIN
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    status := 'locked';
    IF NOT pg_try_advisory_xact_lock(v_space, p_lane) THEN
        BEGIN
            PERFORM set_config('lock_timeout', p_wait || 'ms', true);
            PERFORM pg_advisory_xact_lock(v_space, p_lane);
        EXCEPTION WHEN lock_not_available THEN
            status := 'busy';
        END;
    END IF;
    IF status <> 'busy' THEN
        SELECT t.status, t.claim, t.seqs, t.ids, t.tasks, t.payloads, t.options, t.attempts, t.deaths, t.enqueued
          INTO status, claim, seqs, ids, tasks, payloads, options, attempts, deaths, enqueued
          FROM windlass.claim_take(p_lane, p_worker, p_limit) AS t;
    END IF;
    COMMIT;
END $$;
