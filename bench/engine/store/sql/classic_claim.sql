-- The classic claim. Callers: Reference.skip_locked. Lock: the rows it takes.
-- The ids go through an array: joined to the table instead, batches of some hundreds are planned as a hash join
-- that reads the whole table for every claim, at twice the cost.
UPDATE bench_classic
   SET state = 'running', worker = $1, claimed_at = now(), attempt = attempt + 1
 WHERE id = ANY (ARRAY(SELECT id FROM bench_classic WHERE state = 'ready'
                        ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED))
RETURNING id, task, payload, attempt, enqueued_at
