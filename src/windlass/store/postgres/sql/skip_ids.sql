-- Makes the ids of jobs outside of lanes new again, where their sequence may have been set back by a loss [S3].
-- Callers: enqueue_one, enqueue_many, enqueue_mixed, adopt, adopt_copy. Lock: advisory, -1 of the schema's lock space, let go at once: numbers
-- obey no transaction, and so nobody waits for a producer's. p_highest: no id up to it is free; NULL: a producer asks, before the
-- store was adopted.
-- A sequence that stands below ids_from, which was noted long before the loss, has not been set forward since. What is noted
-- there is beyond all that was given out; chance is added, so that two servers promoted from one history go different ways.
CREATE OR REPLACE FUNCTION windlass.skip_ids(p_highest bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_from bigint;
    v_last bigint;
BEGIN
    PERFORM windlass.check_unsubscribed();
    PERFORM pg_advisory_lock(windlass.lock_space(), -1);
    BEGIN
        SELECT m.ids_from INTO v_from FROM windlass.meta m WHERE m.single;
        v_last := greatest(pg_sequence_last_value('windlass.job_id'::regclass), p_highest, 0);
        IF p_highest IS NOT NULL OR v_last < v_from THEN
            PERFORM setval('windlass.job_id', s.high + windlass.skip_of(s.high), true)
               FROM (SELECT greatest(v_last, v_from) AS high) AS s;
        END IF;
    EXCEPTION WHEN query_canceled OR OTHERS THEN
        PERFORM pg_advisory_unlock(windlass.lock_space(), -1);  -- it is the session's, and would stay with it
        RAISE;
    END;
    PERFORM pg_advisory_unlock(windlass.lock_space(), -1);
END $$;
