-- Every queue. Callers: Reader.queues. Lock: none.
SELECT q.*, windlass.cools(q) AS cooling FROM windlass.queue q ORDER BY q.name
