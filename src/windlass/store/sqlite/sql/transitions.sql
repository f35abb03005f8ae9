-- The transitions of single jobs. Called by transitions under the write lock.

-- :find  a job by its id: at the place where it was inserted, or else among those that have moved
SELECT {row} FROM windlass_job j WHERE pos = ? AND id IS NULL
UNION ALL
SELECT {row} FROM windlass_job j WHERE id = ?;

-- :find_many
SELECT {row} FROM windlass_job j WHERE pos IN (SELECT value FROM json_each(?1)) AND id IS NULL
UNION ALL
SELECT {row} FROM windlass_job j WHERE id IN (SELECT value FROM json_each(?1));

-- :at
SELECT {row} FROM windlass_job j WHERE pos = ?;

-- :move
UPDATE windlass_job
SET pos = ?, id = ?, state = ?, touched_at = ?, attempt = ?, deaths = ?, run_at = ?, cancel = ?, reason = ?,
    errors = ?, result = ?, options = ?, gate = ?, need = ?, progress = ?
WHERE pos = ?;

-- :rewrite  what is changed of a waiting job
UPDATE windlass_job SET lane = ?, payload = ?, fair_key = ?, options = ? WHERE pos = ?;

-- :enter  the same for a held job that comes to its lane
UPDATE windlass_job SET pos = ?, id = ?, state = ?, gate = NULL WHERE pos = ?;

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

-- :key_died  a count that is long past starts over
INSERT INTO windlass_key_death (key, deaths, last) VALUES (?1, 1, ?2)
ON CONFLICT (key) DO UPDATE SET deaths = CASE WHEN last > ?3 THEN deaths + 1 ELSE 1 END, last = ?2;

-- :key_went_well
DELETE FROM windlass_key_death WHERE key = ?;

-- :run_of  the gate of its run, its place there, and whether another of them that has not ended came before it
SELECT p.gate, p.place,
       EXISTS (SELECT 1 FROM windlass_pass o WHERE o.gate = p.gate AND o.run = p.run AND o.place < p.place)
FROM windlass_pass p WHERE p.job = ? AND p.run IS NOT NULL;

-- :change_lane  of a job that waits for its time
UPDATE windlass_job SET lane = ? WHERE pos = ?;
