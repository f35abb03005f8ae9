-- When all buckets of a budget were drained last; and `at` of a bucket is never a time to come any more.
ALTER TABLE windlass_budget ADD COLUMN drained_at REAL NOT NULL DEFAULT 0;
UPDATE windlass_bucket SET at = min(at, unixepoch('now', 'subsec'));
