-- The end of a batch, fenced by its worker. Callers: Reference.skip_locked. Lock: the rows it ends.
UPDATE bench_classic SET state = 'done', finished_at = now()
 WHERE id = ANY ($1::bigint[]) AND state = 'running' AND worker = $2
