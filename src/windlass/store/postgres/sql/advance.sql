-- Brings a parent up to date with its parts and takes every step that it can take now [P9]. Answers with its state, with
-- NULL where there is no such parent, or with 'busy' where somebody has held it for longer than p_wait ms: a worker's
-- flush must not hang on an operator's open transaction, and neither must promote.
-- Callers: split, cancel_parent, redrive_parts, reopen_for, set_parent, retry; the store after a flush that ended
-- parts, and in promote. Lock: the parent's row, until the transaction ends; then those of offer.
-- What ended before the lock was got is seen by the statements after it. What commits later is folded by whoever ended
-- it, or by promote: each end is folded once, under this lock, and so is the decision that follows from it.
CREATE OR REPLACE FUNCTION windlass.advance(p_parent bigint, p_wait int DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    p windlass.parent;
BEGIN
    PERFORM windlass.require_read_committed();
    IF p_wait IS NOT NULL THEN
        BEGIN
            PERFORM set_config('lock_timeout', greatest(p_wait, 1) || 'ms', true);
            PERFORM FROM windlass.parent x WHERE x.id = p_parent FOR UPDATE;
            PERFORM set_config('lock_timeout', greatest(p_wait, 100) || 'ms', true);
        EXCEPTION WHEN lock_not_available THEN
            RETURN 'busy';
        END;
    END IF;
    PERFORM FROM windlass.parent x WHERE x.id = p_parent FOR UPDATE;
    IF NOT FOUND THEN
        DELETE FROM windlass.part_event e WHERE e.parent = p_parent;
        RETURN NULL;
    END IF;
    PERFORM windlass.fold(p_parent);
    LOOP
        SELECT * INTO p FROM windlass.parent x WHERE x.id = p_parent;
        CASE windlass.next_step(p)
            WHEN 'release' THEN PERFORM windlass.release(p);
            WHEN 'finalize' THEN PERFORM windlass.release_final(p);
            WHEN 'succeed' THEN PERFORM windlass.end_parent(p, 'succeeded', NULL);
            WHEN 'cancel' THEN PERFORM windlass.end_parent(p, 'cancelled', NULL);
            WHEN 'die' THEN
                PERFORM windlass.end_parent(p, 'dead', CASE WHEN p.dead + p.cancelled > p.tolerated
                    THEN format('%s of its parts failed, %s are tolerated', p.dead + p.cancelled, p.tolerated)
                    ELSE 'its finalizer is dead' || coalesce(': ' || (SELECT t.error FROM windlass.part t
                                                                       WHERE t.parent = p.id AND t.index = -1), '') END);
            ELSE RETURN p.state;
        END CASE;
    END LOOP;
END $$;
