-- The epoch that this server is sure to have gone through without a loss [S3]: since it began, all that was acknowledged is here,
-- and no number that was given out will be given out again. NULL where it has recovered since, or this is a copy. Callers: worker_alone,
-- check_epoch, must_adopt; where it must be quick the same is written out. Lock: none.
CREATE OR REPLACE FUNCTION windlass.epoch_here() RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT e.epoch FROM windlass.epoch_mark e WHERE e.place = 'windlass.epoch_mark'::regclass::oid::bigint
$$;
