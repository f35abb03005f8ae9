-- One bounded step of taking back a dead worker's jobs; see give_back. Callers: the store's rescue, after bury.
-- Lock: those of give_back.
CREATE OR REPLACE FUNCTION windlass.rescue_step(
    p_worker bigint, p_delays float8[], p_limit int,
    OUT offered bigint, OUT deferred bigint, OUT dead bigint, OUT cancelled bigint, OUT left_over boolean,
    OUT freed text[])
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    SELECT * FROM windlass.give_back(p_worker, 'lost', p_delays, p_limit)
$$;
