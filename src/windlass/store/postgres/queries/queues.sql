-- Every queue. Callers: Reader.queues. Lock: none.
SELECT q.*, windlass.cools(q) AS cooling, windlass.flow_of(q) AS flow FROM windlass.queue q ORDER BY q.name COLLATE "C"
