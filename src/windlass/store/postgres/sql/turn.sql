-- Takes the turn of a name, if nobody has taken it within the last p_every seconds. Callers: the store. Lock: the row.
CREATE OR REPLACE FUNCTION windlass.turn(p_name text, p_every float8) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    INSERT INTO windlass.turn_taken AS t (name, at) VALUES (p_name, windlass.now())
    ON CONFLICT (name) DO UPDATE SET at = excluded.at WHERE t.at NOT BETWEEN excluded.at - make_interval(secs => p_every) + interval '1 microsecond' AND excluded.at + interval '1 s';
    RETURN FOUND;
END $$;
