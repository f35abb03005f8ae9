-- Checkpoints of some jobs. Callers: Reader.checkpoints. Lock: none.
SELECT job, data, done, total, at FROM windlass.checkpoint WHERE job = ANY ($1)
