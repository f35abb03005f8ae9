-- Takes back waiting twins that were replaced, each in its lane, and lets their successors go.
-- Callers: the store after an enqueue with "replace", and in promote. Lock: ACCESS SHARE on claim; the successors' rows, and
-- those of may_end, by trying only: what somebody holds is passed over [S2].
-- A twin that has started in the meantime is not taken back: its successor goes when it has ended. Those are passed, so that
-- they hold up nobody else: it looks at fifty, and the next step goes on behind them.
CREATE OR REPLACE FUNCTION windlass.replace_step(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    d       record;
    v_n     int := least(p_limit, 50);
    v_seen  bigint[];
    v_done  int := 0;
    v_began timestamptz := clock_timestamp();
BEGIN
    -- As in finish: the snapshot that says which twins run must be younger than any rotation that moved them.
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    v_seen := ARRAY(SELECT x.replaces FROM windlass.deferred x
                     WHERE x.replaces > pg_sequence_last_value('windlass.replace_from'::regclass) ORDER BY x.replaces LIMIT v_n);
    PERFORM setval('windlass.replace_from'::regclass, CASE WHEN cardinality(v_seen) < v_n THEN 0 ELSE v_seen[v_n] END, true);
    FOR d IN SELECT * FROM windlass.deferred x WHERE x.replaces = ANY (v_seen) ORDER BY x.replaces FOR UPDATE SKIP LOCKED LOOP
        -- Lanes are not held for long.
        EXIT WHEN v_done > 0 AND clock_timestamp() > v_began + interval '50 ms';
        CONTINUE WHEN EXISTS (SELECT FROM windlass.locate(d.replaces) l WHERE l.claim IS NOT NULL AND l.kind IS NULL)
                   OR NOT windlass.may_end(d.replaces);
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
