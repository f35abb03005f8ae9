-- How many jobs of a queue are ready, and how many seconds the longest waiting of them has waited. Callers: judge_load,
-- pressure_now, pressure_of, governed. Lock: none. The depth is that of positions, so O(lanes), or with p_seen of what has
-- committed (see lane_seen), which costs more and is for those who are about to refuse something; jobs aside are counted no further
-- than p_enough, and the wait is looked for only where p_wait asks for it. A plan made once for all [rule 8]:
-- lane_head's LIMIT would else be planned anew each time, which takes longer than all the rest.
CREATE OR REPLACE FUNCTION windlass.queue_load(p_queue text, p_enough bigint, p_wait boolean, p_seen boolean DEFAULT false,
                                               OUT depth bigint, OUT wait float8)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_first timestamptz;
    v_aside timestamptz;
BEGIN
    SELECT coalesce(sum(CASE WHEN p_seen THEN windlass.lane_seen(l.id, p_enough) ELSE windlass.lane_depth(l.id) END), 0) INTO depth
      FROM windlass.lane l WHERE l.queue = p_queue;
    IF depth < p_enough THEN
        depth := depth + (SELECT count(*) FROM (SELECT FROM windlass.held h WHERE h.queue = p_queue
                                                 LIMIT p_enough - depth) AS x);
    END IF;
    IF p_wait THEN
        SELECT min(windlass.lane_head(l.id, 100)) INTO v_first FROM windlass.lane l WHERE l.queue = p_queue;
        SELECT h.since INTO v_aside FROM windlass.held h WHERE h.queue = p_queue ORDER BY h.since LIMIT 1;
        wait := coalesce(date_part('epoch', windlass.now() - least(v_first, v_aside)), 0);
    END IF;
END $$;
