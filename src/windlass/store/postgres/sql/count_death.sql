-- Counts the dead runs of a unique key in a row; a success forgets them, and so do 7 days without one [O7].
-- Callers: settle. Lock: the key's row, which only the job that holds the key writes.
CREATE OR REPLACE FUNCTION windlass.count_death(p_key text, p_kind text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_kind = 'succeeded' THEN
        DELETE FROM windlass.key_death WHERE key = p_key;
    ELSIF p_kind = 'dead' THEN
        INSERT INTO windlass.key_death AS k (key, at, deaths) VALUES (p_key, windlass.now(), 1)
        ON CONFLICT (key) DO UPDATE SET at = excluded.at,
           deaths = CASE WHEN k.at > excluded.at - interval '7 days' THEN k.deaths + 1 ELSE 1 END;
    END IF;
END $$;
