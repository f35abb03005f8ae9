-- Replaces the whole assignment of slots, of workers that are alive; true if that changed anything [K1] [K3].
-- p_slots: [{"worker": ..., "queue": ..., "slots": ...}, ...]. Callers: the store. Lock: the leader row FOR SHARE, so that
-- no other term begins before this is committed; then the rows that change.
-- Where nothing changes nothing is written, not even a row lock: the coordinator asks every second or two.
CREATE OR REPLACE FUNCTION windlass.assign(p_term bigint, p_slots json) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    v_wanted windlass.slot[];
    v_lost   boolean;
BEGIN
    SELECT l.term <> p_term OR NOT windlass.term_runs(l) INTO v_lost FROM windlass.leader l;
    IF NOT v_lost THEN
        SELECT coalesce(array_agg(ROW (x.worker, x.queue, x.slots)::windlass.slot), '{}') INTO v_wanted
          FROM json_to_recordset(p_slots) AS x (worker bigint, queue text, slots int)
          JOIN windlass.worker_life w ON w.id = x.worker AND w.alive;
        IF NOT EXISTS (SELECT worker, queue, slots FROM windlass.slot
                           EXCEPT SELECT worker, queue, slots FROM unnest(v_wanted))
           AND NOT EXISTS (SELECT worker, queue, slots FROM unnest(v_wanted)
                           EXCEPT SELECT worker, queue, slots FROM windlass.slot) THEN
            RETURN false;
        END IF;
        PERFORM FROM windlass.leader l WHERE l.term = p_term AND windlass.term_runs(l) FOR SHARE;
        v_lost := NOT FOUND;
    END IF;
    IF v_lost THEN
        RAISE EXCEPTION 'term % is over', p_term USING ERRCODE = 'WL009',
            HINT = 'Another may coordinate by now; stand again before assigning slots.';
    END IF;
    DELETE FROM windlass.slot s
     WHERE NOT EXISTS (SELECT FROM unnest(v_wanted) AS w WHERE w.worker = s.worker AND w.queue = s.queue);
    INSERT INTO windlass.slot AS s (worker, queue, slots) SELECT worker, queue, slots FROM unnest(v_wanted)
    ON CONFLICT (worker, queue) DO UPDATE SET slots = excluded.slots WHERE s.slots <> excluded.slots;
    RETURN true;
END $$;
