-- Every queue. Callers: Reader.queues. Lock: none.
SELECT * FROM windlass.queue ORDER BY name
