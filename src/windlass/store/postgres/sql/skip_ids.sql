-- Makes the ids of jobs outside of lanes new again, where a recovery may have set their sequence back [S3].
-- Callers: enqueue_one, enqueue_many, enqueue_mixed, adopt, adopt_copy. Lock: advisory, -1 of the schema's lock space, let go at once: what a producer
-- does with its transaction is nobody's concern, and numbers obey none. p_highest: no id up to it was free; NULL: see whether
-- there is need.
CREATE OR REPLACE FUNCTION windlass.skip_ids(p_highest bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM windlass.check_unsubscribed();
    PERFORM pg_advisory_lock(windlass.lock_space(), -1);
    IF p_highest IS NOT NULL OR (windlass.epoch_here() BETWEEN 0 AND 1 << 29) IS NOT TRUE THEN
        PERFORM setval('windlass.job_id', s.last + windlass.skip_of(s.last), true)
           FROM (SELECT greatest(pg_sequence_last_value('windlass.job_id'::regclass), p_highest, 0) AS last) AS s;
        PERFORM setval('windlass.epoch_mark', 'windlass.epoch_mark'::regclass::oid::bigint << 30, true);
    END IF;
    PERFORM pg_advisory_unlock(windlass.lock_space(), -1);
END $$;
