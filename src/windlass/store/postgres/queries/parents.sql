-- Parents, the one split last first; with $1 only those that have not ended. Callers: Parents. Lock: none.
SELECT p.* FROM windlass.list_parents($1, $2) AS l JOIN windlass.job_parent p ON p.id = l.id ORDER BY l.place
