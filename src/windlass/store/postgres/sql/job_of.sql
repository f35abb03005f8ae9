-- The job id of a ready row: the one it carries, or its position [rule 4]. Callers: many, the store's
-- readings. Lock: none.
CREATE OR REPLACE FUNCTION windlass.job_of(r windlass.ready) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT coalesce(r.id, r.lane::bigint << 44 | r.seq) $$;
