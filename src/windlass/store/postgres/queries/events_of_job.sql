-- The latest events of job $3, in queue $4 if that is told, below id $1, up to $2. Callers: Measures.events. Lock: none.
SELECT id, at, kind, told, job, queue, task, worker, attempt, ms FROM windlass.event
 WHERE job = $3 AND id < $1 AND ($4::text IS NULL OR queue = $4) ORDER BY job DESC, id DESC LIMIT $2
