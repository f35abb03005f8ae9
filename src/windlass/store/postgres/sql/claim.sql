-- Leases the next jobs of one lane to one worker, commits, and only then answers [rule 2].
-- Callers: the store, outside of any transaction. Lock: the lane, then what claim_take takes, then the rows of buckets in their
-- order; before the lane that of its queue, where that has a limit (p_limited). Whoever keeps a bucket for longer than p_wait ms
-- does not keep the lane: the claim is rolled back, and 'busy'.
-- A procedure, because a function could not commit: its jobs would be given out under the caller's isolation
-- level and its lane would stay locked for as long as the caller leaves the answer unread. Waiting for the lock
-- shares a lane evenly between workers; p_wait (ms) bounds it, and then the answer is 'busy', not 'empty'.
-- offered: when each attempt was offered, NULL where that is when its job was enqueued.
-- p_needs: which tokens the jobs of some tasks need (see claim_needs). Where all of a round had to go aside there may be others
-- behind them, so there are some more rounds, each a transaction of its own.
CREATE OR REPLACE PROCEDURE windlass.claim(
    p_lane int, p_worker bigint, p_limit int, p_wait int,
    INOUT status text DEFAULT NULL, INOUT claim bigint DEFAULT NULL, INOUT seqs bigint[] DEFAULT NULL,
    INOUT ids bigint[] DEFAULT NULL, INOUT tasks text[] DEFAULT NULL, INOUT payloads text[] DEFAULT NULL,
    INOUT options text[] DEFAULT NULL, INOUT attempts smallint[] DEFAULT NULL,
    INOUT deaths smallint[] DEFAULT NULL, INOUT enqueued float8[] DEFAULT NULL,
    INOUT offered float8[] DEFAULT NULL,
    p_needs json DEFAULT NULL, p_limited boolean DEFAULT false)
LANGUAGE plpgsql AS $$
DECLARE
    v_space  int := windlass.lock_space();
    v_limit  int;
    v_gated  boolean;
    v_busy   boolean;
    v_before text;
BEGIN
    FOR v_round IN 1..10 LOOP
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
        status := 'locked';
        v_limit := p_limit;
        v_busy := false;
        IF p_limited AND NOT windlass.queue_lock(p_lane, p_wait) THEN
            status := 'busy';
        ELSIF NOT pg_try_advisory_xact_lock(v_space, p_lane) THEN
            BEGIN
                v_before := current_setting('lock_timeout');
                PERFORM set_config('lock_timeout', p_wait || 'ms', true);
                PERFORM pg_advisory_xact_lock(v_space, p_lane);
                PERFORM set_config('lock_timeout', v_before, true);
            EXCEPTION WHEN lock_not_available THEN
                status := 'busy';
            END;
        END IF;
        IF p_limited AND status <> 'busy' THEN
            SELECT r.room, coalesce(r.status, claim.status) INTO v_limit, status FROM windlass.claim_room(p_lane, p_limit) AS r;
        END IF;
        IF status = 'locked' THEN
            SELECT t.status, t.claim, t.seqs, t.ids, t.tasks, t.payloads, t.options, t.attempts, t.deaths, t.enqueued,
                   t.offered, t.gated
              INTO status, claim, seqs, ids, tasks, payloads, options, attempts, deaths, enqueued, offered, v_gated
              FROM windlass.claim_take(p_lane, p_worker, v_limit, p_limited) AS t;
            IF status = 'jobs' AND v_gated THEN
                SELECT CASE WHEN t.seqs IS NULL THEN 'aside' ELSE 'jobs' END, t.seqs, t.ids, t.tasks, t.payloads, t.options,
                       t.attempts, t.deaths, t.enqueued, t.offered
                  INTO status, seqs, ids, tasks, payloads, options, attempts, deaths, enqueued, offered
                  FROM windlass.claim_gated(p_lane, claim, seqs, ids, tasks, payloads, options, attempts, deaths, enqueued,
                                            offered) AS t;
            END IF;
            IF status = 'jobs' AND p_needs IS NOT NULL THEN
                SELECT CASE WHEN t.seqs IS NULL THEN 'aside' ELSE 'jobs' END, t.seqs, t.ids, t.tasks, t.payloads, t.options,
                       t.attempts, t.deaths, t.enqueued, t.offered, t.busy
                  INTO status, seqs, ids, tasks, payloads, options, attempts, deaths, enqueued, offered, v_busy
                  FROM windlass.claim_needs(p_lane, claim, p_needs, seqs, ids, tasks, payloads, options, attempts, deaths,
                                            enqueued, offered, p_wait) AS t;
            END IF;
            IF status = 'jobs' AND p_limited AND NOT v_busy THEN
                v_busy := NOT windlass.claim_count(p_lane, claim, cardinality(seqs), p_wait);
            END IF;
            IF v_busy THEN
                ROLLBACK;
                status := 'busy';
                SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
                  INTO claim, seqs, ids, tasks, payloads, options, attempts, deaths, enqueued, offered;
            ELSIF status = 'jobs' AND array_remove(ids, NULL) <> '{}' THEN
                PERFORM windlass.claim_passed(array_remove(ids, NULL));
            END IF;
        END IF;
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
        IF status = 'jobs' AND EXISTS (SELECT FROM windlass.task_setting s WHERE s.concurrency IS NOT NULL) THEN
            SELECT CASE WHEN t.seqs IS NULL THEN 'aside' ELSE 'jobs' END, t.seqs, t.ids, t.tasks, t.payloads, t.options,
                   t.attempts, t.deaths, t.enqueued, t.offered
              INTO status, seqs, ids, tasks, payloads, options, attempts, deaths, enqueued, offered
              FROM windlass.claim_recheck(p_lane, p_worker, claim, seqs, ids, tasks, payloads, options, attempts, deaths,
                                          enqueued, offered) AS t;
        END IF;
        COMMIT;
        EXIT WHEN status <> 'aside';
    END LOOP;
END $$;
