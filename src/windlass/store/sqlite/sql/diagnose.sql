-- What an operator should know. Called by diagnose, in a read transaction.

-- :wal  frames in the WAL, and how many of them are copied into the file; NOOP only looks
PRAGMA wal_checkpoint(NOOP);

-- :waiting  ready jobs by queue, held ones included
SELECT l.queue, sum(l.ready + l.held) FROM windlass_lane l JOIN windlass_queue q ON q.name = l.queue
WHERE NOT q.paused GROUP BY l.queue HAVING sum(l.ready + l.held) > 0 ORDER BY l.queue;

-- :live  the queues of each worker that has been heard of within its lease
SELECT queues FROM windlass_worker WHERE alive AND beat_at + lease >= ?;

-- :over  budgets that jobs need more of than they can hold, and how much at most, of the first thousand jobs
SELECT budget, count(*), max(need) FROM (
    SELECT substr(gate, 6, instr(gate, '/') - 6) AS budget, need FROM windlass_job
    WHERE state = 9 AND gate >= 'over:' AND gate < 'over;' LIMIT 1000)
GROUP BY budget ORDER BY budget;
