-- When the job of a ready row was enqueued, however often it was offered since. Callers: many, the store's
-- readings. Lock: none.
CREATE OR REPLACE FUNCTION windlass.enqueued_of(r windlass.ready) RETURNS timestamptz
LANGUAGE sql IMMUTABLE AS $$ SELECT coalesce(r.enqueued_at, r.offered_at) $$;
