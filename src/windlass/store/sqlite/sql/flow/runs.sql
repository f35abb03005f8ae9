-- Runs of keys. Called by runs under the write lock.

-- :followers  those who wait at many gates, so many of each; `need` is NULL, since no gate is a budget's
SELECT j.gate, j.pos, coalesce(j.id, j.pos), j.lane, j.task, j.payload, j.attempt, j.deaths, j.options,
       j.enqueued_at, j.touched_at
FROM json_each(?1) g
JOIN windlass_job j ON j.pos IN
    (SELECT w.pos FROM windlass_job w WHERE w.state = 9 AND w.gate = g.value ORDER BY w.pos LIMIT ?2);

-- :give  the first of a run has its pass by now
INSERT INTO windlass_pass (job, gate, n, place, run) VALUES (?, ?, 1, ?, ?)
ON CONFLICT DO UPDATE SET place = excluded.place, run = excluded.run;
