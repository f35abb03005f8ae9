-- Removes what has outlived its time, up to p_limit of each: rows of charts, by their span; events older than p_event_kept
-- seconds or beyond the last p_events; and tellers that have been silent for p_teller_kept and are no living worker. `more`: of
-- something it took as much as it may. Callers: the store's rollup. Lock: the rows it removes; the caller holds that of
-- rollup_take.
-- How many events there are is told by their numbers; what an epoch has passed over, a billion and more, does not count [S3].
CREATE OR REPLACE FUNCTION windlass.rollup_expire(
    p_limit int, p_spans int[], p_kept float8[], p_event_kept float8, p_events bigint, p_teller_kept float8,
    OUT removed bigint, OUT more boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    v_now    float8 := windlass.epoch();
    v_events bigint;
    v_silent bigint;
    v_left   bigint := p_events;
    v_last   bigint := (SELECT max(e.id) FROM windlass.event e);
    v_below  bigint;  -- no event up to this one stays
    v_before bigint;
    v_first  bigint;
BEGIN
    LOOP
        v_below := v_last - v_left;
        SELECT max(e.id) INTO v_before FROM windlass.event e WHERE e.id <= v_below;
        SELECT min(e.id) INTO v_first FROM windlass.event e WHERE e.id > v_below;
        EXIT WHEN v_left = 0 OR v_before IS NULL OR v_first - v_before < 1 << 30;
        v_left := v_left - (v_last - v_first + 1);
        v_last := v_before;
    END LOOP;
    WITH old AS MATERIALIZED (
        SELECT x.span, x.at, x.queue, x.task
          FROM unnest(p_spans, p_kept) AS k (span, kept)
         CROSS JOIN LATERAL (SELECT * FROM windlass.measured m
                              WHERE m.span = k.span AND m.at < floor(v_now - k.kept)::bigint
                              ORDER BY m.at LIMIT p_limit) AS x
         LIMIT p_limit)
    DELETE FROM windlass.measured m USING old o
     WHERE m.span = o.span AND m.queue = o.queue AND m.task = o.task AND m.at = o.at;
    GET DIAGNOSTICS removed = ROW_COUNT;
    DELETE FROM windlass.event e
     WHERE e.id IN (SELECT x.id FROM (SELECT y.id, y.at FROM windlass.event y ORDER BY y.id LIMIT p_limit) AS x
                     WHERE x.at <= v_now - p_event_kept OR x.id <= v_below);
    GET DIAGNOSTICS v_events = ROW_COUNT;
    DELETE FROM windlass.teller t
     WHERE t.source IN (SELECT x.source FROM windlass.teller x
                         WHERE x.at <= to_timestamp(v_now - p_teller_kept)
                           AND NOT EXISTS (SELECT FROM windlass.worker_life l WHERE l.id = x.source AND l.alive)
                         LIMIT p_limit FOR UPDATE OF x SKIP LOCKED);
    GET DIAGNOSTICS v_silent = ROW_COUNT;
    more := greatest(removed, v_events, v_silent) >= p_limit;
    removed := removed + v_events;
END $$;
