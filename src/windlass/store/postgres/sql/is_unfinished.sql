-- Whether a job has yet to end. Callers: hold_key, rotation_move_failures, cancel_job, delete, end_waiting, expire,
-- replace_step, settle_rest, sweep_passes, fire_schedule. Lock: none.
CREATE OR REPLACE FUNCTION windlass.is_unfinished(p_job bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM windlass.deferred d WHERE d.id = p_job)
        OR EXISTS (SELECT FROM windlass.held h WHERE h.id = p_job)
        OR EXISTS (SELECT FROM windlass.parent p WHERE p.id = p_job AND p.state = 'waiting')
        OR EXISTS (SELECT FROM windlass.locate(p_job) l WHERE l.kind IS NULL)
$$;
