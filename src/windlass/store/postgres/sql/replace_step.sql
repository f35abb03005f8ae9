-- Takes back waiting twins that were replaced, each in its lane, and lets their successors go.
-- Callers: the store after an enqueue with "replace", and in promote. Lock: the successors' rows, and those of
-- may_end, by trying only: what somebody holds is passed over, so that 50 that can go do [S2].
-- A twin that has started in the meantime is not taken back: its successor goes when it has ended.
CREATE OR REPLACE FUNCTION windlass.replace_step(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    d      record;
    v_done int := 0;
    v_began timestamptz := clock_timestamp();
BEGIN
    FOR d IN SELECT * FROM windlass.deferred WHERE replaces IS NOT NULL ORDER BY replaces LIMIT p_limit
                FOR UPDATE SKIP LOCKED LOOP
        -- Lanes are not held for long.
        EXIT WHEN v_done >= 50 OR v_done > 0 AND clock_timestamp() > v_began + interval '50 ms';
        CONTINUE WHEN NOT windlass.may_end(d.replaces);
        IF NOT windlass.end_waiting(d.replaces, 'replaced') THEN
            -- It runs, or is on its way. Whatever is decided about it now may be wrong when this commits, so its
            -- successor simply waits on.
            CONTINUE WHEN windlass.is_unfinished(d.replaces);
        END IF;
        -- A new xid: promote's watermark has passed the row while it was not free to go.
        UPDATE windlass.deferred SET replaces = NULL, xid = pg_current_xact_id() WHERE id = d.id;
        v_done := v_done + 1;
    END LOOP;
    RETURN v_done;
END $$;
