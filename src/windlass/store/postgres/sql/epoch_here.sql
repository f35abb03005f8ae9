-- The epoch that this server is sure to have gone through without a loss: up to where it began all that was acknowledged is
-- here, and no number that was given out will be given out again [S3]. 0: only ids of jobs outside of lanes are sure to be new
-- (see skip_ids). NULL or any other number: none is. Callers: lane_for, worker_fence, worker_alone, beat, check_epoch,
-- must_adopt, enqueue_one, enqueue_many, enqueue_mixed, skip_ids. Lock: none.
-- The mark is an unlogged sequence, which every recovery resets; less the part that names the sequence itself.
CREATE OR REPLACE FUNCTION windlass.epoch_here() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT pg_sequence_last_value('windlass.epoch_mark'::regclass) - ('windlass.epoch_mark'::regclass::oid::bigint << 30)
$$;
