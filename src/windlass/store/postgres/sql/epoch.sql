-- The time in seconds since the epoch, as budgets and schedules count it; p_now where somebody has told it. Callers: the
-- functions of budgets, admission, schedules and rollups, the store's readings. Lock: none.
CREATE OR REPLACE FUNCTION windlass.epoch(p_now float8 DEFAULT NULL) RETURNS float8
LANGUAGE sql VOLATILE AS $$ SELECT coalesce(p_now, date_part('epoch', windlass.now())) $$;
