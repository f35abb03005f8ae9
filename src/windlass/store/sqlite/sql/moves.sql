-- The moves of single jobs. Called by moves under the write lock.

-- :find  a job by its id: at the place of its birth, or else among those that have moved
SELECT pos, lane, state, touched_at, attempt, deaths, options, id, cancel, errors, task, gate, need
FROM windlass_job WHERE pos = ? AND id IS NULL
UNION ALL
SELECT pos, lane, state, touched_at, attempt, deaths, options, id, cancel, errors, task, gate, need
FROM windlass_job WHERE id = ?;

-- :at
SELECT pos, lane, state, touched_at, attempt, deaths, options, id, cancel, errors, task, gate, need
FROM windlass_job WHERE pos = ?;

-- :move
UPDATE windlass_job
SET pos = ?, id = ?, state = ?, touched_at = ?, attempt = ?, deaths = ?, run_at = ?, cancel = ?, reason = ?,
    errors = ?, result = ?, options = ?, gate = ?, need = ?
WHERE pos = ?;

-- :remove
DELETE FROM windlass_job WHERE pos = ?;

-- :is_bound  it has a checkpoint or a pass, or others come after it
SELECT 1 FROM windlass_checkpoint WHERE job = ?1 UNION ALL SELECT 1 FROM windlass_after WHERE awaited = ?1
UNION ALL SELECT 1 FROM windlass_pass WHERE job = ?1;

-- :drop_checkpoint
DELETE FROM windlass_checkpoint WHERE job = ? RETURNING data, done, total, at;

-- :free
DELETE FROM windlass_unique WHERE key = ? AND job = ? RETURNING rerun;

-- :not_ended
DELETE FROM windlass_awaited WHERE job = ?;
