-- The moves of single jobs. Called by moves under the write lock.

-- :find  a job by its id: at the place of its birth, or else among those that have moved
SELECT pos, lane, state, touched_at, attempt, deaths, options, id, cancel, errors
FROM windlass_job WHERE pos = ? AND id IS NULL
UNION ALL
SELECT pos, lane, state, touched_at, attempt, deaths, options, id, cancel, errors
FROM windlass_job WHERE id = ?;

-- :at
SELECT pos, lane, state, touched_at, attempt, deaths, options, id, cancel, errors
FROM windlass_job WHERE pos = ?;

-- :move
UPDATE windlass_job
SET pos = ?, id = ?, state = ?, touched_at = ?, attempt = ?, deaths = ?, run_at = ?, cancel = ?, reason = ?,
    errors = ?, result = ?, options = ?
WHERE pos = ?;

-- :remove
DELETE FROM windlass_job WHERE pos = ?;

-- :has_checkpoint
SELECT 1 FROM windlass_checkpoint WHERE job = ?;

-- :drop_checkpoint
DELETE FROM windlass_checkpoint WHERE job = ?;

-- :free
DELETE FROM windlass_unique WHERE key = ? AND job = ? RETURNING rerun;
