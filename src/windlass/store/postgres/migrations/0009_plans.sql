-- Promotion goes on past jobs that somebody has locked, and knows its place to the job.

-- The place is (run_at, job): many jobs may be due at one moment. retried: how far the walk over deferred_left has come.
ALTER TABLE windlass.deferred_watermark
    ADD COLUMN job     bigint NOT NULL DEFAULT 9223372036854775807,
    ADD COLUMN retried bigint NOT NULL DEFAULT 0;

-- Due jobs that the watermark has passed because another transaction had them locked; see promote.
CREATE TABLE windlass.deferred_left (id bigint PRIMARY KEY);

-- Whether any task has a limit is asked with every claim.
CREATE INDEX ON windlass.task_setting (name) WHERE concurrency IS NOT NULL;
