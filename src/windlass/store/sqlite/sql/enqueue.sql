-- New jobs and their keys. Called by enqueue, and by transaction.Inserts, under the write lock.

-- ── inserts ────────────────────────────────────────────────────────────────────────────────────────────────

-- :next_number  the newest insert is never removed, so numbers only grow
SELECT number + n FROM windlass_insert ORDER BY number DESC LIMIT 1;

-- :has_begun  and has steps, or waits for a signal
SELECT 1 WHERE EXISTS (SELECT 1 FROM windlass_step WHERE job = ?1)
            OR EXISTS (SELECT 1 FROM windlass_wait WHERE job = ?1);

-- :insert_job
INSERT INTO windlass_job
    (pos, lane, state, touched_at, enqueued_at, number, task, payload, options, run_at, fair_key, gate,
     attempt, deaths)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 0);

-- :insert
INSERT INTO windlass_insert (number, lo, n, at) VALUES (?, ?, ?, ?);

-- :count_ended  at the end of every operation that has ended jobs
INSERT INTO windlass_ended (queue, task, state, n) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET n = n + excluded.n;

-- :insert_deadline
INSERT INTO windlass_expiry (job, at) VALUES (?, ?);

-- :insert_key
INSERT INTO windlass_unique (key, job) VALUES (?, ?);

-- ── keys ───────────────────────────────────────────────────────────────────────────────────────────────────

-- :first  the job that came first with this idempotency key, while the key is remembered
SELECT job FROM windlass_idempotency WHERE key = ? AND at > ?;

-- :remember
INSERT INTO windlass_idempotency (key, job, at) VALUES (?, ?, ?)
ON CONFLICT (key) DO UPDATE SET job = excluded.job, at = excluded.at;

-- :holder
SELECT job FROM windlass_unique WHERE key = ?;

-- :set_rerun
UPDATE windlass_unique SET rerun = ? WHERE key = ?;

-- ── whether a queue takes new jobs ─────────────────────────────────────────────────────────────────────────

-- :latency
SELECT latency FROM windlass_observed WHERE at > ?;

-- :observe
UPDATE windlass_observed SET latency = ?, at = ?;

-- :count_shed
UPDATE windlass_queue SET shed = shed + ? WHERE name = ?;

-- :count_refused
UPDATE windlass_queue SET refused = refused + ? WHERE name = ?;

-- :deaths
SELECT deaths, last FROM windlass_key_death WHERE key = ? AND last > ?;
