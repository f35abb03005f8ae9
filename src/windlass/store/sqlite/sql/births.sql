-- New jobs. Called by births.Births under the write lock.

-- :next  the newest birth is never removed, so numbers only grow
SELECT number + n FROM windlass_birth ORDER BY number DESC LIMIT 1;

-- :job
INSERT INTO windlass_job
    (pos, lane, state, touched_at, enqueued_at, number, task, payload, options, run_at, fair_key, gate, attempt,
     deaths)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 0);

-- :birth
INSERT INTO windlass_birth (number, lo, n, at) VALUES (?, ?, ?, ?);

-- :key
INSERT INTO windlass_unique (key, job) VALUES (?, ?);
