-- The rows of span $1 of queue $2 and task $3 from $4 until before $5, by time. Callers: Measures.measured. Lock: none.
SELECT sample, at, queue, task FROM windlass.measured
 WHERE span = $1 AND queue = $2 AND task = $3 AND at >= $4 AND at < $5 ORDER BY at
