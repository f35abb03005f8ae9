-- Makes a worker known and alive; an id that was ever used is a unique violation. Callers: the store.
-- Lock: the row of meta FOR KEY SHARE, so that no epoch begins which passes it over.
CREATE OR REPLACE FUNCTION windlass.register(
    p_id bigint, p_label text, p_host text, p_pid int, p_queues text[], p_lease float8 DEFAULT 30) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    IF p_id <= 0 THEN
        RAISE EXCEPTION 'a worker id must be positive' USING ERRCODE = 'WL005';
    END IF;
    PERFORM windlass.check_epoch();
    INSERT INTO windlass.worker_life (id, epoch) SELECT p_id, m.epoch FROM windlass.meta m WHERE m.single FOR KEY SHARE;
    INSERT INTO windlass.worker_beat (id, at) VALUES (p_id, windlass.now());
    INSERT INTO windlass.worker (id, label, host, pid, queues, started_at, lease)
    VALUES (p_id, p_label, p_host, p_pid, p_queues, windlass.now(), p_lease);
    -- Jobs may wait for somebody who serves their queue.
    IF EXISTS (SELECT FROM windlass.held h WHERE h.gate >= 'shut:' AND h.gate < 'shut;') THEN
        PERFORM windlass.stir_gates(windlass.next_lines('shut:', 'shut;', '', 1000), true);
    END IF;
END $$;
