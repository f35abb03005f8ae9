-- Which process imported which records of which part. Callers: proof.look. Lock: none.
SELECT part, worker, count(*), min(id), max(id) FROM {table} GROUP BY part, worker ORDER BY part, min(id)
