-- Budgets and their buckets. Called by budgets.Budgets under the write lock.

-- :named
SELECT name, rate, burst, key, breaker, breaker_pause, failures, openings, until, probing, drained_until, drained_at
FROM windlass_budget WHERE name = ?;

-- :keep
INSERT INTO windlass_budget
    (name, rate, burst, key, breaker, breaker_pause, failures, openings, until, probing, drained_until, drained_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE
SET rate = excluded.rate, burst = excluded.burst, key = excluded.key, breaker = excluded.breaker,
    breaker_pause = excluded.breaker_pause, failures = excluded.failures, openings = excluded.openings,
    until = excluded.until, probing = excluded.probing, drained_until = excluded.drained_until,
    drained_at = excluded.drained_at;

-- :drop
DELETE FROM windlass_budget WHERE name = ?;

-- :bucket
SELECT tokens, at, blocked_until FROM windlass_bucket WHERE budget = ? AND key = ?;

-- :buckets
SELECT key FROM windlass_bucket WHERE budget = ?;

-- :keep_bucket
INSERT INTO windlass_bucket (budget, key, tokens, at, blocked_until) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (budget, key) DO UPDATE
SET tokens = excluded.tokens, at = excluded.at, blocked_until = excluded.blocked_until;

-- :drop_buckets
DELETE FROM windlass_bucket WHERE budget = ?;

-- :forget  buckets of keys that have been full for long; a new one would be just like that
DELETE FROM windlass_bucket WHERE (budget, key) IN (
    SELECT u.budget, u.key FROM windlass_bucket u CROSS JOIN windlass_budget b ON b.name = u.budget
    WHERE u.at <= ?1 AND u.key <> '' AND b.drained_until <= ?1
      AND u.tokens + b.rate * (?1 - max(u.at, u.blocked_until, b.drained_until)) >= b.burst
    LIMIT ?2);
