-- Listings, newest first: every statement is ordered by number, descending, without sorting more than it must.
-- Called by listing, in a read transaction; rows are fetched only as far as the page needs them.

-- :aside  dead, cancelled, scheduled, retrying or held jobs, and parents that wait
SELECT j.number, j.pos, j.id, j.state, j.touched_at, j.enqueued_at, j.attempt, j.deaths, j.task, j.payload,
       j.options, j.run_at, j.cancel, j.reason, j.errors, j.result, l.queue, l.priority, l.id << 44 | l.hi,
       j.gate
FROM windlass_job j CROSS JOIN windlass_lane l ON l.id = j.lane
WHERE j.state = ? AND j.state > 4 AND j.number < ? ORDER BY j.number DESC;

-- :running  there are never more of these than workers can hold
SELECT j.number, j.pos, j.id, j.state, j.touched_at, j.enqueued_at, j.attempt, j.deaths, j.task, j.payload,
       j.options, j.run_at, j.cancel, j.reason, j.errors, j.result, l.queue, l.priority, l.id << 44 | l.hi,
       j.gate
FROM windlass_claim c
CROSS JOIN windlass_job j ON j.pos BETWEEN (c.lane << 44 | c.lo) AND (c.lane << 44 | c.hi) AND j.state IN (2, 3)
CROSS JOIN windlass_lane l ON l.id = j.lane
WHERE c.unfinished > 0 AND j.number < ? ORDER BY j.number DESC;

-- :count_ready
SELECT total(ready) FROM windlass_lane;

-- :ready  the ready jobs of all lanes; used only where they are few
SELECT j.number, j.pos, j.id, j.state, j.touched_at, j.enqueued_at, j.attempt, j.deaths, j.task, j.payload,
       j.options, j.run_at, j.cancel, j.reason, j.errors, j.result, l.queue, l.priority, l.id << 44 | l.hi,
       j.gate
FROM windlass_lane l CROSS JOIN windlass_job j ON j.pos > (l.id << 44 | l.hi) AND j.pos < (l.id + 1) << 44
WHERE l.id > 0 AND l.ready > 0 AND j.number < ? ORDER BY j.number DESC;

-- :floor  the birth that so many others stand before, newest first
SELECT number, at FROM windlass_birth WHERE number < ? ORDER BY number DESC LIMIT 1 OFFSET ?;

-- :born_here  jobs that stand where they were born, by their births
SELECT j.number, j.pos, j.id, j.state, j.touched_at, j.enqueued_at, j.attempt, j.deaths, j.task, j.payload,
       j.options, j.run_at, j.cancel, j.reason, j.errors, j.result, l.queue, l.priority, l.id << 44 | l.hi,
       j.gate
FROM windlass_birth b
CROSS JOIN windlass_job j ON j.pos BETWEEN b.lo AND b.lo + b.n - 1 AND j.id IS NULL
CROSS JOIN windlass_lane l ON l.id = j.lane
WHERE b.number < ? AND b.number >= ? AND j.number < ? ORDER BY b.number DESC, j.pos DESC;

-- :moved  jobs that have moved
SELECT j.number, j.pos, j.id, j.state, j.touched_at, j.enqueued_at, j.attempt, j.deaths, j.task, j.payload,
       j.options, j.run_at, j.cancel, j.reason, j.errors, j.result, l.queue, l.priority, l.id << 44 | l.hi,
       j.gate
FROM windlass_job j INDEXED BY windlass_job_moved_number
CROSS JOIN windlass_lane l ON l.id = j.lane
WHERE j.id IS NOT NULL AND j.number < ? ORDER BY j.number DESC;
