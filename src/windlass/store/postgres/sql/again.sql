-- Offers an attempt again: at the back of its lane at once, or through deferred after a delay.
-- Callers: finish_others, give_back. Lock: those of offer.
CREATE OR REPLACE FUNCTION windlass.again(
    r windlass.ready, p_delay float8, p_attempt int, p_deaths int, p_retrying boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint := windlass.job_of(r);
BEGIN
    IF p_delay > 0 THEN
        INSERT INTO windlass.deferred (id, run_at, enqueued_at, queue, priority, task, payload, options, attempt,
                                       deaths, retrying)
        SELECT v_id, windlass.after(p_delay), windlass.enqueued_of(r), l.queue, l.priority, r.task, r.payload, r.options,
               p_attempt, p_deaths, p_retrying
          FROM windlass.lane l WHERE l.id = r.lane;
    ELSE
        PERFORM windlass.offer(r.lane, 1, ARRAY[r.task], ARRAY[r.payload::text], ARRAY[r.options::text], ARRAY[v_id],
                               ARRAY[p_attempt]::smallint[], ARRAY[p_deaths]::smallint[], ARRAY[windlass.enqueued_of(r)]);
    END IF;
END $$;
