-- Lookup. Called by lookup, in a read transaction.

-- :job
SELECT j.number, j.pos, j.id, j.state, j.touched_at, j.enqueued_at, j.attempt, j.deaths, j.task, j.payload,
       j.options, j.run_at, j.cancel, j.reason, j.errors, j.result, l.queue, l.priority, l.id << 44 | l.hi,
       j.gate
FROM windlass_job j JOIN windlass_lane l ON l.id = j.lane WHERE j.pos = ? AND j.id IS NULL
UNION ALL
SELECT j.number, j.pos, j.id, j.state, j.touched_at, j.enqueued_at, j.attempt, j.deaths, j.task, j.payload,
       j.options, j.run_at, j.cancel, j.reason, j.errors, j.result, l.queue, l.priority, l.id << 44 | l.hi,
       j.gate
FROM windlass_job j JOIN windlass_lane l ON l.id = j.lane WHERE j.id = ?;

-- :claim_of  the claim that covers a position [I2]
SELECT id, worker, at FROM windlass_claim
WHERE lane = ?1 >> 44 AND hi >= ?1 & 0xfffffffffff ORDER BY hi LIMIT 1;

-- :checkpoints
SELECT job, data, done, total, at FROM windlass_checkpoint WHERE job IN (SELECT value FROM json_each(?));

-- :depth  one row per queue and lane; a queue without lanes has one of zeros
SELECT q.name, coalesce(l.id, 0), q.window, coalesce(l.ready, 0), coalesce(l.held, 0), coalesce(l.running, 0),
       coalesce(l.scheduled, 0), coalesce(l.retrying, 0), coalesce(l.dead, 0), coalesce(l.seq, 0)
FROM windlass_queue q LEFT JOIN windlass_lane l ON l.queue = q.name;

-- :oldest  since when the oldest ready job of a lane waits, in the lane or for its fair key's turn
SELECT min(touched_at) FROM (
    SELECT * FROM (
        SELECT j.touched_at FROM windlass_lane l
        CROSS JOIN windlass_job j ON j.pos > (l.id << 44 | l.hi) AND j.pos < (l.id + 1) << 44
        WHERE l.id = ?1 ORDER BY j.pos LIMIT ?2)
    UNION ALL
    SELECT min(touched_at) FROM windlass_job WHERE state = 9 AND lane = ?1);
