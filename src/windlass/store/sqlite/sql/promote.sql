-- Promotion. Called by promote under the write lock.

-- :due
SELECT pos, lane, state, touched_at, attempt, deaths, options, id, cancel, errors, task, gate, need
FROM windlass_job WHERE run_at IS NOT NULL AND run_at <= ? ORDER BY run_at, coalesce(id, pos) LIMIT ?;
