-- Declares a queue, or changes some of its settings; unnamed ones stay. Callers: users, the store. Lock: the row, then those of
-- set_rate. A setting that does not exist, or makes no sense, is refused, and nothing is changed [K1].
CREATE OR REPLACE FUNCTION windlass.set_queue(p_name text, p_changes jsonb DEFAULT '{}') RETURNS windlass.queue
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    q          windlass.queue;
    v_wrong    text;
    v_governed boolean;
    v_limited  boolean;
    v_paused   boolean;
BEGIN
    PERFORM windlass.check_name('queue', p_name);
    -- least NULL: more than 0. most: a whole number up to it.
    SELECT c.key INTO v_wrong
      FROM jsonb_each(p_changes) AS c
      LEFT JOIN (VALUES ('paused', 'boolean', false, 0, 0), ('backoff', 'boolean', false, 0, 0),
                        ('max_workers', 'number', true, 1, 2147483647), ('retention', 'number', true, 0, NULL),
                        ('dead_retention', 'number', false, 0, NULL), ('lane_window', 'number', false, 1, 2147483647),
                        ('shards', 'number', false, 1, 64), ('safety_bound', 'number', false, NULL, NULL),
                        ('backoff_base', 'number', false, 0, NULL), ('backoff_cap', 'number', false, 0, NULL),
                        ('cool_base', 'number', false, NULL, NULL), ('cool_cap', 'number', false, NULL, NULL),
                        ('concurrency', 'number', true, 1, 2147483647), ('governor', 'boolean', false, 0, 0),
                        ('rate_min', 'number', false, 0, NULL), ('rate_max', 'number', false, NULL, NULL),
                        ('max_depth', 'number', true, 1, 9007199254740992),
                        ('shed_depth', 'number', true, 1, 9007199254740992), ('shed_wait', 'number', true, NULL, NULL),
                        ('shed_latency', 'number', true, NULL, NULL))
             AS s (name, type, nullable, least, most) ON s.name = c.key
     WHERE CASE WHEN s.name IS NULL THEN true
                WHEN jsonb_typeof(c.value) = 'null' THEN NOT s.nullable
                WHEN jsonb_typeof(c.value) <> s.type THEN true
                WHEN s.type = 'boolean' THEN false
                WHEN s.most IS NOT NULL THEN c.value::numeric NOT BETWEEN s.least AND s.most OR c.value::numeric % 1 <> 0
                WHEN s.least IS NULL THEN c.value::numeric <= 0
                ELSE c.value::numeric < 0 END
     LIMIT 1;
    IF v_wrong IS NOT NULL THEN
        RAISE EXCEPTION 'queue % cannot have % set to %', p_name, v_wrong, p_changes -> v_wrong USING ERRCODE = 'WL005',
            HINT = 'Settings are paused, max_workers, retention, dead_retention, lane_window, shards, safety_bound, '
                   'backoff, backoff_base, backoff_cap, cool_base, cool_cap, concurrency, governor, rate_min, rate_max, '
                   'max_depth, shed_depth, shed_wait and shed_latency; numbers are positive.';
    END IF;
    INSERT INTO windlass.queue (name) VALUES (p_name) ON CONFLICT DO NOTHING;
    SELECT * INTO q FROM windlass.queue WHERE name = p_name FOR NO KEY UPDATE;
    v_governed := q.governor;
    v_limited := q.concurrency IS NOT NULL;
    v_paused := q.paused;
    q := jsonb_populate_record(q, p_changes);
    IF q.rate_min > q.rate_max THEN
        RAISE EXCEPTION 'rate_min of queue % cannot be above its rate_max, %', p_name, q.rate_max USING ERRCODE = 'WL005',
            HINT = 'Set both at once, or rate_max first.';
    END IF;
    UPDATE windlass.queue SET paused = q.paused, max_workers = q.max_workers, retention = q.retention,
           dead_retention = q.dead_retention, lane_window = q.lane_window, shards = q.shards,
           safety_bound = q.safety_bound, backoff = q.backoff, backoff_base = q.backoff_base,
           backoff_cap = q.backoff_cap, cool_base = q.cool_base, cool_cap = q.cool_cap, concurrency = q.concurrency,
           governor = q.governor, rate_min = q.rate_min, rate_max = q.rate_max, max_depth = q.max_depth,
           shed_depth = q.shed_depth, shed_wait = q.shed_wait, shed_latency = q.shed_latency
     WHERE name = p_name;
    -- Without a limit nobody notes what runs: the next one begins to count anew, also where a claim that still knew of the last
    -- one has noted something since [F3].
    DELETE FROM windlass.limited_queue x WHERE x.queue = p_name AND (q.concurrency IS NULL OR NOT v_limited);
    -- Who asked meanwhile was told that it is paused, and asks again when called or after seconds [K2].
    IF v_paused AND NOT q.paused THEN
        PERFORM windlass.wake(p_name), windlass.stir_gates(ARRAY['shut:' || p_name], true);
    END IF;
    -- Its jobs leave their slots to those who wait for them [F3].
    IF q.paused AND NOT v_paused THEN
        PERFORM windlass.stir_gates(windlass.next_lines('key:', 'key;', '', 1000) || windlass.next_lines('task:', 'task;', '', 1000),
                                    true);
    END IF;
    -- Where a governor begins: as Governor.first in windlass.core says [F2].
    IF q.governor AND NOT v_governed THEN
        PERFORM windlass.set_rate(p_name, greatest(q.rate_min, q.rate_max / 20));
    ELSIF v_governed AND NOT q.governor THEN
        PERFORM windlass.set_rate(p_name, NULL);
        DELETE FROM windlass.governor g WHERE g.queue = p_name;
    END IF;
    RETURN q;
END $$;
