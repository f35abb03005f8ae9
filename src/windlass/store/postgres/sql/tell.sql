-- Takes in what one process has to tell, all of it or nothing, and answers with the time. One that was sent before, by its
-- number, changes nothing. Callers: the store. Lock: the row of its source, which nobody else takes; none that a job takes.
-- p_samples, p_events, p_vitals: NULL where there are none; those that are not told anew stay. An event does not lie in the
-- future, so that those with lower numbers are the older ones.
CREATE OR REPLACE FUNCTION windlass.tell(
    p_source bigint, p_number bigint, p_samples json, p_events json, p_vitals json) RETURNS float8
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    v_now timestamptz := windlass.now();
BEGIN
    INSERT INTO windlass.teller AS t (source, number, at, vitals, vitals_at)
    VALUES (p_source, p_number, v_now, p_vitals, CASE WHEN p_vitals IS NOT NULL THEN v_now END)
    ON CONFLICT (source) DO UPDATE
       SET number = excluded.number, at = excluded.at, vitals = coalesce(excluded.vitals, t.vitals),
           vitals_at = coalesce(excluded.vitals_at, t.vitals_at)
     WHERE t.number < excluded.number;
    IF NOT FOUND THEN
        RETURN date_part('epoch', v_now);
    END IF;
    IF p_samples IS NOT NULL THEN
        INSERT INTO windlass.news (source, number, at, samples) VALUES (p_source, p_number, v_now, p_samples);
    END IF;
    IF p_events IS NOT NULL THEN
        INSERT INTO windlass.event (at, kind, told, job, queue, task, worker, attempt, ms)
        SELECT least(e.at, date_part('epoch', v_now)), e.kind, coalesce(e.told, ''), e.job, coalesce(e.queue, ''),
               coalesce(e.task, ''), coalesce(e.worker, ''), coalesce(e.attempt, 0), e.ms
          FROM json_to_recordset(p_events)
            AS e (at float8, kind text, told text, job bigint, queue text, task text, worker text, attempt int, ms float8);
    END IF;
    RETURN date_part('epoch', v_now);
END $$;
