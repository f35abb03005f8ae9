-- Parents, the one split last first; with $1 only those that have not ended. Callers: Parents. Lock: none.
SELECT * FROM windlass.job_parent WHERE NOT $1 OR state = 'waiting' ORDER BY created_at DESC, id DESC LIMIT $2
