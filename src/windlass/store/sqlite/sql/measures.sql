-- Measures. Called by measures: what processes report and its rollup under the write lock, the rest by
-- readers.

-- ── reports and their rollup ───────────────────────────────────────────────────────────────────────────────

-- :last_report  the number of the last report of a process
SELECT number FROM windlass_reporter WHERE source = ?;

-- :keep_reporter  vitals that were not reported again stay
INSERT INTO windlass_reporter (source, number, at, vitals, vitals_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET number = excluded.number, at = excluded.at,
    vitals = coalesce(excluded.vitals, vitals), vitals_at = coalesce(excluded.vitals_at, vitals_at);

-- :add_report
INSERT INTO windlass_report (samples) VALUES (?);

-- :add_event
INSERT INTO windlass_event (at, {event}) VALUES (?, {event ?});

-- :oldest_reports
SELECT id, samples FROM windlass_report ORDER BY id LIMIT ?;

-- :forget_reports  what was folded, and so the oldest up to this one
DELETE FROM windlass_report WHERE id <= ?;

-- :any_report
SELECT EXISTS (SELECT 1 FROM windlass_report);

-- :rollup_row
SELECT sample FROM windlass_rollup WHERE span = ? AND queue = ? AND task = ? AND at = ?;

-- :write_rollup
INSERT INTO windlass_rollup (span, queue, task, at, sample) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET sample = excluded.sample;

-- :remove_rollups
DELETE FROM windlass_rollup WHERE rowid IN (
    SELECT rowid FROM windlass_rollup WHERE span = ? AND at < ? ORDER BY at LIMIT ?);

-- :remove_events  among the first ones: those that are old, and those that are too many
DELETE FROM windlass_event WHERE id IN (SELECT id FROM windlass_event ORDER BY id LIMIT ?3)
  AND (at <= ?1 OR id <= (SELECT max(id) FROM windlass_event) - ?2);

-- :remove_reporters  who is silent for long and no worker that is alive
DELETE FROM windlass_reporter WHERE source IN (
    SELECT t.source FROM windlass_reporter t
    WHERE t.at <= ? AND NOT EXISTS (SELECT 1 FROM windlass_worker w WHERE w.id = t.source AND w.alive)
    LIMIT ?);

-- ── charts, timelines and causes of death ──────────────────────────────────────────────────────────────────

-- :measured
SELECT sample, at, queue, task FROM windlass_rollup
WHERE span = ? AND queue = ? AND task = ? AND at >= ? AND at < ? ORDER BY at;

-- :totals
SELECT sample, at, queue, task FROM windlass_rollup WHERE span = 0 ORDER BY queue, task;

-- :ended
SELECT queue, task, state, n FROM windlass_ended ORDER BY queue, task;

-- :succeeded
SELECT coalesce(sum(n), 0) FROM windlass_ended WHERE state = 4;

-- :miscounts  what has ended and is there, against what was counted: of all jobs, for an operator alone
SELECT s.queue, s.task, s.state, coalesce(e.n, 0), s.n
FROM (SELECT l.queue, j.task,
             CASE WHEN j.state = 6 AND j.reason LIKE 'expired after %' THEN 11 ELSE j.state END AS state,
             count(*) AS n
      FROM windlass_job j JOIN windlass_lane l ON l.id = j.lane
      WHERE j.state IN (4, 5, 6) GROUP BY 1, 2, 3) s
LEFT JOIN windlass_ended e USING (queue, task, state)
WHERE s.n > coalesce(e.n, 0) ORDER BY s.queue, s.task, s.state;

-- :correct_count
INSERT INTO windlass_ended (queue, task, state, n) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET n = excluded.n;

-- :events
SELECT id, at, {event} FROM windlass_event
WHERE id < ? ORDER BY id DESC LIMIT ?;

-- :events_of_queue
SELECT id, at, {event} FROM windlass_event
WHERE queue = ? AND id < ? ORDER BY id DESC LIMIT ?;

-- :events_of_job
SELECT id, at, {event} FROM windlass_event
WHERE job = ? AND id < ? AND queue = coalesce(?, queue) ORDER BY id DESC LIMIT ?;

-- :dead  from the index alone
SELECT j.pos, j.task, j.touched_at, j.errors ->> '$[#-1].type'
FROM windlass_job j INDEXED BY windlass_job_cause
WHERE j.state = 5 ORDER BY j.number DESC LIMIT ?;

-- :dead_of_queue  the counters of its lanes say when all of them are found
SELECT j.pos, j.task, j.touched_at, j.errors ->> '$[#-1].type'
FROM windlass_job j INDEXED BY windlass_job_cause
WHERE j.state = 5 AND j.lane IN (SELECT l.id FROM windlass_lane l WHERE l.queue = ?1)
ORDER BY j.number DESC
LIMIT min(?2, (SELECT coalesce(sum(l.dead), 0) FROM windlass_lane l WHERE l.queue = ?1));

-- :last_words
SELECT errors, reason FROM windlass_job WHERE pos = ?;

-- ── the file ───────────────────────────────────────────────────────────────────────────────────────────────

-- :sizes  the bytes of tables with their indexes. This reads every page of the file.
SELECT s.tbl_name, sum(d.pgsize)
FROM dbstat d JOIN sqlite_schema s ON s.name = d.name
WHERE d.aggregate = 1 AND s.tbl_name >= 'windlass_' AND s.tbl_name < 'windlass`'
GROUP BY s.tbl_name ORDER BY 2 DESC;

-- :count_reports
SELECT count(*) FROM (SELECT 1 FROM windlass_report LIMIT ?);

-- :term
SELECT until FROM windlass_term;

-- :lanes_with_ready  with jobs in or beside them
SELECT id, queue, ready, held, id << 44 | hi, (id + 1) << 44 FROM windlass_lane
WHERE ready + held > 0 ORDER BY id;

-- :in_lane  beyond the cursor are exactly the ready jobs [I1]
SELECT task, count(*)
FROM (SELECT task FROM windlass_job WHERE pos > ? AND pos < ? ORDER BY pos LIMIT ?) GROUP BY task;

-- :aside
SELECT task, count(*) FROM (SELECT task FROM windlass_job WHERE state = 9 AND lane = ? LIMIT ?) GROUP BY task;

-- ── for `windlass doctor` ──────────────────────────────────────────────────────────────────────────────────

-- :wal  frames in the WAL, and how many of them are copied into the file; NOOP only looks
PRAGMA wal_checkpoint(NOOP);

-- :ready_by_queue  ready jobs by queue, held ones included
SELECT l.queue, sum(l.ready + l.held) FROM windlass_lane l JOIN windlass_queue q ON q.name = l.queue
WHERE NOT q.paused GROUP BY l.queue HAVING sum(l.ready + l.held) > 0 ORDER BY l.queue;

-- :live_workers  the queues of each worker that has been heard of within its lease
SELECT queues FROM windlass_worker WHERE alive AND heartbeat_at + lease >= ?;

-- :over_budgets  budgets that jobs need more of than they can hold, and how much at most, of the first
-- thousand jobs
SELECT budget, count(*), max(need) FROM (
    SELECT substr(gate, 6, instr(gate, '/') - 6) AS budget, need FROM windlass_job
    WHERE state = 9 AND gate >= 'over:' AND gate < 'over;' LIMIT 1000)
GROUP BY budget ORDER BY budget;
