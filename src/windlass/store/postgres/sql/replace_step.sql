-- Takes back waiting twins that were replaced, each in its lane, and lets their successors go.
-- Callers: the store after an enqueue with "replace", and in promote. Lock: ACCESS SHARE on claim; the lanes of the twins, in order.
-- A twin that has started in the meantime is not taken back: its successor goes when it has ended. Those are passed, so that
-- they hold up nobody else: it looks at fifty, and the next step goes on behind them.
CREATE OR REPLACE FUNCTION windlass.replace_step(p_limit int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    d       record;
    v_twins bigint[];
    v_seen  bigint[];
    v_done  int := 0;
BEGIN
    -- As in finish: the snapshot that says which twins run must be younger than any rotation that moved them.
    LOCK TABLE windlass.claim IN ACCESS SHARE MODE;
    v_seen := ARRAY(SELECT x.replaces FROM windlass.deferred x
                     WHERE x.replaces > pg_sequence_last_value('windlass.replace_from'::regclass) ORDER BY x.replaces LIMIT 50);
    v_twins := ARRAY(SELECT u.twin FROM unnest(v_seen) AS u (twin)
                      WHERE NOT EXISTS (SELECT FROM windlass.locate(u.twin) l WHERE l.claim IS NOT NULL AND l.kind IS NULL)
                      LIMIT p_limit);
    PERFORM setval('windlass.replace_from'::regclass, CASE WHEN cardinality(v_seen) < 50 THEN 0 ELSE v_seen[50] END, true);
    IF v_twins = '{}' THEN
        RETURN 0;
    END IF;
    PERFORM windlass.lock_lanes_of(v_twins);
    FOR d IN SELECT * FROM windlass.deferred x WHERE x.replaces = ANY (v_twins) ORDER BY x.replaces FOR UPDATE SKIP LOCKED LOOP
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
