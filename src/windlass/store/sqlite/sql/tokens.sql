-- Reading budgets for others. Called by tokens, in a read transaction.

-- :all
SELECT name, rate, burst, key, breaker, breaker_pause, failures, openings, until, probing, drained_until, drained_at
FROM windlass_budget ORDER BY name;

-- :bucket
SELECT tokens, at, blocked_until FROM windlass_bucket WHERE budget = ? AND key = ?;

-- :waiting  those who stand in a line of a budget, by what its name begins with: '0' comes right after '/'
SELECT count(*) FROM (
    SELECT 1 FROM windlass_job WHERE state = 9 AND gate >= ?1 || '/' AND gate < ?1 || '0' LIMIT ?2);
