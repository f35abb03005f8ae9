-- Counts per queue, and how long the oldest has waited. Callers: Reader.depth. Lock: none.
SELECT *, date_part('epoch', windlass.now() - oldest) AS waited FROM windlass.depth()
