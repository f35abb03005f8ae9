-- Every task that has settings. Callers: Parents. Lock: none.
SELECT * FROM windlass.task_setting ORDER BY name COLLATE "C"
