-- The number of every lane. Callers: Rotator. Lock: none.
SELECT id FROM windlass.lane ORDER BY id
