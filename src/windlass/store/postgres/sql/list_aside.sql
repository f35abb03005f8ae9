-- The newest jobs that are not in a lane, as a listing looks at them: of each kind up to p_limit, below (p_at, p_before); of
-- these the ones that queue, task, tag, text and error fit and the last one, each with how many up to it were looked at.
-- Callers: the store's listing. Lock: none.
-- The dead of one queue are written as a range, so that only the index of their queue can give them in order: by an equality the
-- one of all queues could, past any number of others [rule 8].
-- Kinds: 'scheduled', 'retrying', 'held', 'dead', and 'parent waiting', 'parent dead', ... by state.
CREATE OR REPLACE FUNCTION windlass.list_aside(
    p_queue text, p_task text, p_tag text, p_text text, p_kinds text[], p_at timestamptz[], p_before bigint[], p_limit int,
    p_error text DEFAULT NULL)
RETURNS TABLE (kind text, id bigint, enqueued_at timestamptz, fit boolean, rank bigint)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    RETURN QUERY
    SELECT looked.kind, looked.id, looked.enqueued_at, looked.fit, looked.rank FROM (
    SELECT s.kind, j.id, j.enqueued_at,
           (p_queue IS NULL OR j.queue = p_queue) AND (p_task IS NULL OR j.task = p_task)
           AND (p_tag IS NULL OR coalesce((j.options -> 'tags')::jsonb ? p_tag, false))
           AND (p_text IS NULL OR strpos(j.payload::text, p_text) > 0)
           AND (p_error IS NULL
                OR p_error = CASE WHEN s.kind = 'dead' THEN j.error ELSE coalesce((
                       SELECT CASE WHEN f.attempt > 0 THEN f.type END FROM windlass.failure f
                        WHERE f.job = j.id ORDER BY f.at DESC LIMIT 1), '') END) AS fit,
           row_number() OVER (PARTITION BY s.kind ORDER BY j.enqueued_at DESC, j.id DESC) AS rank,
           count(*) OVER (PARTITION BY s.kind) AS n
      FROM unnest(p_kinds, p_at, p_before) AS s (kind, at, before)
     CROSS JOIN LATERAL (
           (SELECT d.id, d.enqueued_at, d.queue, d.task, d.options, d.payload, NULL::text AS error FROM windlass.deferred d
             WHERE s.kind = 'scheduled' AND NOT d.retrying AND (d.enqueued_at, d.id + 0) < (s.at, s.before)
             ORDER BY d.enqueued_at DESC, d.id + 0 DESC LIMIT p_limit)
           UNION ALL
           (SELECT d.id, d.enqueued_at, d.queue, d.task, d.options, d.payload, NULL::text AS error FROM windlass.deferred d
             WHERE s.kind = 'retrying' AND d.retrying AND (d.enqueued_at, d.id + 0) < (s.at, s.before)
             ORDER BY d.enqueued_at DESC, d.id + 0 DESC LIMIT p_limit)
           UNION ALL
           (SELECT h.id, h.enqueued_at, h.queue, h.task, h.options, h.payload, NULL FROM windlass.held h
             WHERE s.kind = 'held' AND (h.enqueued_at, h.id + 0) < (s.at, s.before)
             ORDER BY h.enqueued_at DESC, h.id + 0 DESC LIMIT p_limit)
           UNION ALL
           (SELECT d.id, d.enqueued_at, d.queue, d.task, d.options, d.payload,
                   CASE WHEN p_error IS NOT NULL THEN coalesce(d.error, d.errors -> -1 ->> 'type', '') END AS error
              FROM windlass.dead d
             WHERE s.kind = 'dead' AND p_queue IS NULL AND (d.enqueued_at, d.id + 0) < (s.at, s.before)
             ORDER BY d.enqueued_at DESC, d.id + 0 DESC LIMIT p_limit)
           UNION ALL
           (SELECT d.id, d.enqueued_at, d.queue, d.task, d.options, d.payload,
                   CASE WHEN p_error IS NOT NULL THEN coalesce(d.error, d.errors -> -1 ->> 'type', '') END AS error
              FROM windlass.dead d
             WHERE s.kind = 'dead' AND d.queue >= p_queue AND (d.queue, d.enqueued_at, d.id + 0) < (p_queue, s.at, s.before)
             ORDER BY d.queue DESC, d.enqueued_at DESC, d.id + 0 DESC LIMIT p_limit)
           UNION ALL
           (SELECT p.id, p.enqueued_at, p.queue, p.task, p.options, p.payload, NULL FROM windlass.parent p
             WHERE s.kind LIKE 'parent %' AND p.state = substr(s.kind, 8) AND (p.enqueued_at, p.id + 0) < (s.at, s.before)
             ORDER BY p.enqueued_at DESC, p.id + 0 DESC LIMIT p_limit)) AS j) AS looked
     WHERE looked.fit OR looked.rank = looked.n ORDER BY looked.kind, looked.rank;
END $$;
