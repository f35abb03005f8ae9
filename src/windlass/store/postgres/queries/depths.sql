-- Counts per queue, how long the oldest has waited, and how often jobs were offered. Callers: Reader.depth. Lock: none.
SELECT d.*, date_part('epoch', windlass.now() - d.oldest) AS waited, coalesce(o.n, 0) AS offered
  FROM windlass.depth() AS d LEFT JOIN windlass.offered() AS o ON o.queue = d.queue
 ORDER BY d.queue COLLATE "C"
