-- What was counted since the store was made, of every queue and task. Callers: Measures.totals. Lock: none.
SELECT sample, at, queue, task FROM windlass.measured WHERE span = $1 ORDER BY queue, task
