-- Parts. Called by parts: what is in the last section by readers, the rest under the write lock.

-- ── parts ──────────────────────────────────────────────────────────────────────────────────────────────────

-- :add
INSERT INTO windlass_part (parent, number, state, size, span) VALUES (?, ?, 0, ?, ?);

-- :pending  the next to be offered, the lowest index first
SELECT number, span, size, data, done, goal, at, earlier FROM windlass_part
WHERE parent = ? AND state = 0 AND state <> 4 ORDER BY number LIMIT ?;

-- :offer  what it has saved before is its job's checkpoint from now on
UPDATE windlass_part
SET state = 1, job = ?, claimed = 0, attempt = 0, error = NULL, data = NULL, goal = NULL, at = NULL,
    earlier = NULL
WHERE parent = ? AND number = ?;

-- :hand_over_steps  those of a part's last job are those of its next one
UPDATE windlass_step SET job = ? WHERE job = ?;

-- :waiting  how many that were offered nobody has claimed yet
SELECT count(*) FROM windlass_part WHERE parent = ? AND state = 1 AND claimed = 0;

-- :claimed
UPDATE windlass_part SET claimed = 1
WHERE parent = ?1 AND number = (
    SELECT number FROM windlass_part WHERE parent = ?1 AND job = ?2 AND state = 1 AND claimed = 0);

-- :bring_back
UPDATE windlass_part SET state = 1, attempt = 0, error = NULL, data = NULL, goal = NULL, at = NULL
WHERE parent = ? AND number = ?;

-- :restore
INSERT INTO windlass_checkpoint (job, data, done, total, at) VALUES (?, ?, ?, ?, ?);

-- :of_job  the part that this job runs, or ran last
SELECT state, size, done, records, data, goal, at FROM windlass_part
WHERE parent = ? AND number = ? AND job = ?;

-- :end
UPDATE windlass_part
SET state = ?, attempt = ?, done = ?, records = ?, error = ?, data = ?, goal = ?, at = ?
WHERE parent = ? AND number = ?;

-- :out  the jobs of those that are out
SELECT job FROM windlass_part INDEXED BY windlass_part_open
WHERE parent = ? AND state = 1 AND state <> 4 ORDER BY number;

-- :failed  the jobs of those that have ended otherwise than well
SELECT number, state, job FROM windlass_part INDEXED BY windlass_part_open
WHERE parent = ? AND state IN (5, 6) AND state <> 4;

-- :again
UPDATE windlass_part SET state = 0, earlier = job, job = NULL, attempt = 0, error = NULL
WHERE parent = ? AND number = ?;

-- :run_by  whichever part a job with unreadable options runs; looks at all that are open
SELECT parent, number FROM windlass_part WHERE state = 1 AND state <> 4 AND job = ?;

-- ── parents and parts as others see them ───────────────────────────────────────────────────────────────────

-- =parents
SELECT p.id, j.task, l.queue, p.state, p.total, p.succeeded, p.dead, p.cancelled, p.out, p.parallel,
       p.tolerated, p.size, p.done, p.records, p.final, j.cancel IS NOT NULL AS cancel_requested, j.reason,
       p.created_at, p.finished_at
FROM windlass_parent p CROSS JOIN windlass_job j ON j.id = p.id CROSS JOIN windlass_lane l ON l.id = p.lane

-- :parent
{parents} WHERE p.id = ?;

-- :all
{parents} ORDER BY p.number DESC LIMIT ?;

-- :active
{parents} WHERE p.finished_at IS NULL ORDER BY p.number DESC LIMIT ?;

-- :saved  what the parts that are out have saved, and what the parent has counted of them before
SELECT c.data, c.done, p.done, p.records
FROM windlass_part p INDEXED BY windlass_part_open CROSS JOIN windlass_checkpoint c ON c.job = p.job
WHERE p.parent = ? AND p.state = 1 AND p.state <> 4;

-- :parts
SELECT t.parent, t.number AS "index", p.total, t.span, t.size, t.state, t.job, t.attempt, t.done, t.records,
       t.error, p.created_at
FROM windlass_parent p CROSS JOIN windlass_part t ON t.parent = p.id
WHERE p.id = ? AND t.number >= ? ORDER BY t.number LIMIT ?;

-- :open  parts that are out, or ended otherwise than well
SELECT number, state, job FROM windlass_part INDEXED BY windlass_part_open
WHERE parent = ? AND state IN (1, 5, 6) AND state <> 4;

-- :first_pending  and how many are pending by the parent's counts
SELECT p.total, p.total - p.succeeded - p.dead - p.cancelled - p.out,
       (SELECT t.number FROM windlass_part t WHERE t.parent = p.id AND t.state = 0 AND t.state <> 4
        ORDER BY t.number LIMIT 1)
FROM windlass_parent p WHERE p.id = ?;

-- :pending_runs  where they are not simply the rest
SELECT min(number), count(*)
FROM (SELECT number, number - row_number() OVER (ORDER BY number) AS run FROM windlass_part
      WHERE parent = ? AND state = 0 AND state <> 4)
GROUP BY run;
