-- A queue with its settings changed. Callers: PostgresStore.set_queue. Lock: that of set_queue.
SELECT q.*, windlass.cools(q) AS cooling, windlass.flow_of(q) AS flow FROM windlass.set_queue($1, $2) AS q
