-- The latest events below id $1, up to $2. Callers: Measures.events. Lock: none.
SELECT id, at, kind, told, job, queue, task, worker, attempt, ms FROM windlass.event
 WHERE id < $1 ORDER BY id DESC LIMIT $2
