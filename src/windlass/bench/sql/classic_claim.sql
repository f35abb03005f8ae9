-- The classic claim, a hundred at a time. Callers: Reference.skip_locked. Lock: the rows it takes.
-- The size stands in the text: as a parameter it would be unknown to a generic plan, which then joins by hash.
WITH next AS (
    SELECT id FROM windlass.bench_classic WHERE state = 'ready' ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED)
UPDATE windlass.bench_classic AS j
   SET state = 'running', worker = $1, claimed_at = now(), attempt = j.attempt + 1
  FROM next WHERE j.id = next.id
RETURNING j.id, j.task, j.payload, j.attempt, j.enqueued_at
