-- Budgets, their buckets, and queues with a governor. Called by budget_rows and budgets under the write lock;
-- `all`, `bucket`, `waiting` and `bounds` also by readers.

-- ── budgets ────────────────────────────────────────────────────────────────────────────────────────────────

-- :named
SELECT name, {budget}, failures, openings, until, probing, drained_until, drained_at
FROM windlass_budget WHERE name = ?;

-- :keep
INSERT OR REPLACE INTO windlass_budget
    (name, {budget}, failures, openings, until, probing, drained_until, drained_at)
VALUES (?, {budget ?}, ?, ?, ?, ?, ?, ?);

-- :drop
DELETE FROM windlass_budget WHERE name = ?;

-- :bucket
SELECT tokens, at, paused_until, leased_until, whole_until, used, used_until
FROM windlass_bucket WHERE budget = ? AND key = ?;

-- :buckets
SELECT key FROM windlass_bucket WHERE budget = ?;

-- :keep_bucket
INSERT INTO windlass_bucket
    (budget, key, tokens, at, paused_until, leased_until, whole_until, used, used_until)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (budget, key) DO UPDATE
SET tokens = excluded.tokens, at = excluded.at, paused_until = excluded.paused_until,
    leased_until = excluded.leased_until, whole_until = excluded.whole_until, used = excluded.used,
    used_until = excluded.used_until;

-- :used  who has used most of a budget in this period
SELECT key, used, used_until FROM windlass_bucket WHERE budget = ?1 AND used > 0 AND used_until > ?2
ORDER BY used DESC, key LIMIT ?3;

-- :drop_buckets
DELETE FROM windlass_bucket WHERE budget = ?;

-- :forget  buckets of keys that have been full for long; a new one would be just like that
DELETE FROM windlass_bucket WHERE (budget, key) IN (
    SELECT u.budget, u.key FROM windlass_bucket u CROSS JOIN windlass_budget b ON b.name = u.budget
    WHERE u.at <= ?1 AND u.key <> '' AND b.drained_until <= ?1 AND u.used_until <= ?1
      AND u.tokens + b.rate * (?1 - max(u.at, u.paused_until, b.drained_until)) >= b.burst
    LIMIT ?2);

-- :spent  what an attempt has said last
SELECT tokens FROM windlass_spent WHERE lane = ? AND claim = ? AND seq = ? AND budget = ?;

-- :keep_spent
INSERT OR REPLACE INTO windlass_spent (lane, claim, seq, budget, tokens, at) VALUES (?, ?, ?, ?, ?, ?);

-- :forget_spent
DELETE FROM windlass_spent WHERE (lane, claim, seq, budget) IN (
    SELECT lane, claim, seq, budget FROM windlass_spent WHERE at < ? LIMIT ?);

-- ── queues with a governor ─────────────────────────────────────────────────────────────────────────────────

-- :bounds  what bounds each of these queues
SELECT q.name, q.concurrency, (SELECT total(l.running) FROM windlass_lane l WHERE l.queue = q.name),
       q.governor, q.rate_min, q.rate_max, q.decided, q.tokens, q.tokens_at
FROM windlass_queue q WHERE q.name IN (SELECT value FROM json_each(?));

-- :governed
SELECT q.name, q.rate_min, q.rate_max, q.decided, q.reported,
       (SELECT total(l.ready + l.held) FROM windlass_lane l WHERE l.queue = q.name)
FROM windlass_queue q WHERE q.governor ORDER BY q.name;

-- :forget_reports
UPDATE windlass_queue SET reported = NULL WHERE governor AND reported IS NOT NULL;

-- :decide
UPDATE windlass_queue SET decided = ?, tokens = ?, tokens_at = ? WHERE name = ?;

-- :all
SELECT name, {budget}, failures, openings, until, probing, drained_until, drained_at
FROM windlass_budget ORDER BY name;

-- :waiting  those who wait for a budget, by what its name begins with: '0' comes right after '/'
SELECT count(*) FROM (
    SELECT 1 FROM windlass_job WHERE state = 9 AND gate >= ?1 || '/' AND gate < ?1 || '0' LIMIT ?2);

-- :reported
SELECT reported FROM windlass_queue WHERE name = ? AND governor;

-- :count_runs
UPDATE windlass_queue SET reported = ? WHERE name = ?;
