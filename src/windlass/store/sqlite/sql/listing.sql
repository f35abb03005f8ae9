-- Looking. Called by listing, in a read transaction. Listings are ordered by number, newest first, without
-- sorting more than they must; their rows are fetched only as far as the page needs them.

-- =seen  the columns of listing.Seen
j.number, j.pos, j.id AS own_id, j.state AS state_number, j.touched_at, j.enqueued_at, j.attempt, j.deaths,
j.task, j.payload, j.options, j.run_at, j.cancel, j.reason, j.errors, j.result, l.queue, l.priority,
l.id << 44 | l.hi AS hi, j.gate, j.progress

-- ── one job, and the counts of queues ──────────────────────────────────────────────────────────────────────

-- :job
SELECT {seen}
FROM windlass_job j JOIN windlass_lane l ON l.id = j.lane WHERE j.pos = ? AND j.id IS NULL
UNION ALL
SELECT {seen}
FROM windlass_job j JOIN windlass_lane l ON l.id = j.lane WHERE j.id = ?;

-- :claim_of  the claim that covers a position [I2]
SELECT id, worker, at FROM windlass_claim
WHERE lane = ?1 >> 44 AND hi >= ?1 & 0xfffffffffff ORDER BY hi LIMIT 1;

-- :checkpoints
SELECT job, data, done, total, at FROM windlass_checkpoint WHERE job IN (SELECT value FROM json_each(?));

-- :depth  one row per queue and lane; a queue without lanes has one of zeros
SELECT q.name, coalesce(l.id, 0), coalesce(l.needs, ''), coalesce(l.ready, 0), coalesce(l.held, 0), coalesce(l.running, 0),
       coalesce(l.scheduled, 0), coalesce(l.retrying, 0), coalesce(l.dead, 0), coalesce(l.seq, 0)
FROM windlass_queue q LEFT JOIN windlass_lane l ON l.queue = q.name;

-- :busy_lanes  those of a queue in which jobs are ready
SELECT id FROM windlass_lane WHERE queue = ? AND ready + held > 0;

-- :pending_parts  of each lane whose parents have parts that are not offered yet: how many, how many of them
-- neither a gate nor `parallel` holds back, and since when their parents wait
SELECT x.lane, sum(x.n), sum(CASE WHEN x.closed THEN 0 ELSE x.free END), min(x.created_at)
FROM (SELECT p.lane, p.created_at, p.total - p.succeeded - p.dead - p.cancelled - p.out AS n,
             max(min(p.total - p.succeeded - p.dead - p.cancelled - p.out,
                     coalesce(p.parallel - p.out, p.total)), 0) AS free,
             EXISTS (SELECT 1 FROM windlass_part t
                     JOIN windlass_job j ON j.pos = t.job AND j.id IS NULL OR j.id = t.job
                     WHERE t.parent = p.id AND t.state = 1 AND t.claimed = 0
                       AND j.state = 9 AND j.gate IS NOT NULL) AS closed
      FROM windlass_parent p INDEXED BY windlass_parent_pending
      WHERE p.lane > 0 AND p.finished_at IS NULL AND NOT p.cancelling
        AND p.total > p.succeeded + p.dead + p.cancelled + p.out) AS x
GROUP BY x.lane;

-- :gated  the lanes of jobs that stand at gates, up to so many
SELECT lane FROM windlass_job INDEXED BY windlass_job_gate WHERE state = 9 AND gate IS NOT NULL LIMIT ?;

-- :in_ring  how many jobs of a lane wait for the turn of their fair key
SELECT count(*) FROM windlass_job INDEXED BY windlass_job_ring WHERE state = 9 AND gate IS NULL AND lane = ?;

-- :oldest  since when the oldest ready job of a lane waits, in the lane or for its fair key's turn
SELECT min(touched_at) FROM (
    SELECT * FROM (
        SELECT j.touched_at FROM windlass_lane l
        CROSS JOIN windlass_job j ON j.pos > (l.id << 44 | l.hi) AND j.pos < (l.id + 1) << 44
        WHERE l.id = ?1 ORDER BY j.pos LIMIT ?2)
    UNION ALL
    SELECT min(touched_at) FROM windlass_job WHERE state = 9 AND lane = ?1);

-- :is_open  whether the job ends a group that is open
SELECT 1 FROM windlass_after WHERE awaited = ?1 AND job = ?1;

-- :awaited_by  its others, and the time before which it does not run, whenever they end
SELECT min(awaited), count(*), max(run_at) FROM windlass_after WHERE job = ?;

-- ── pages ──────────────────────────────────────────────────────────────────────────────────────────────────

-- :aside  dead, cancelled, scheduled, retrying or held jobs, and parents that wait
SELECT {seen}
FROM windlass_job j CROSS JOIN windlass_lane l ON l.id = j.lane
WHERE j.state = ? AND j.state > 4 AND j.number < ? ORDER BY j.number DESC;

-- :running  there are never more of these than workers can hold
SELECT {seen}
FROM windlass_claim c
CROSS JOIN windlass_job j ON j.pos BETWEEN (c.lane << 44 | c.lo) AND (c.lane << 44 | c.hi)
  AND j.state IN (2, 3)
CROSS JOIN windlass_lane l ON l.id = j.lane
WHERE c.unfinished > 0 AND j.number < ? ORDER BY j.number DESC;

-- :count_ready
SELECT total(ready) FROM windlass_lane;

-- :ready  the ready jobs of all lanes; used only where they are few
SELECT {seen}
FROM windlass_lane l CROSS JOIN windlass_job j ON j.pos > (l.id << 44 | l.hi) AND j.pos < (l.id + 1) << 44
WHERE l.id > 0 AND l.ready > 0 AND j.number < ? ORDER BY j.number DESC;

-- :floor  the insert with this many newer ones before it
SELECT number, at FROM windlass_insert WHERE number < ? ORDER BY number DESC LIMIT 1 OFFSET ?;

-- :not_moved  jobs that are where they were inserted
SELECT {seen}
FROM windlass_insert b
CROSS JOIN windlass_job j ON j.pos BETWEEN b.lo AND b.lo + b.n - 1 AND j.id IS NULL
CROSS JOIN windlass_lane l ON l.id = j.lane
WHERE b.number < ? AND b.number >= ? AND j.number < ? ORDER BY b.number DESC, j.pos DESC;

-- :moved  jobs that have moved
SELECT {seen}
FROM windlass_job j INDEXED BY windlass_job_moved_number
CROSS JOIN windlass_lane l ON l.id = j.lane
WHERE j.id IS NOT NULL AND j.number < ? ORDER BY j.number DESC;
