-- What was counted since the store was made, of every queue and task. Callers: Measures.totals. Lock: none.
SELECT at, queue, task, counts, waits, runs FROM windlass.measured WHERE span = $1 ORDER BY queue, task
