-- The latest events of queue $3 below id $1, up to $2. Callers: Measures.events. Lock: none.
SELECT id, at, kind, told, job, queue, task, worker, attempt, ms FROM windlass.event
 WHERE queue = $3 AND id < $1 ORDER BY queue DESC, id DESC LIMIT $2
