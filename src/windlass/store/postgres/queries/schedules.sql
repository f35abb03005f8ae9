-- Every schedule, by name. Callers: Schedules. Lock: none.
SELECT * FROM windlass.schedule ORDER BY name COLLATE "C"
