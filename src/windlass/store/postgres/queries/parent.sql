-- One parent. Callers: Parents. Lock: none.
SELECT * FROM windlass.job_parent WHERE id = $1
