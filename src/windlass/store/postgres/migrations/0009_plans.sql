-- Promotion goes on past jobs that somebody has locked, and knows its place to the job.

-- The place is (run_at, job): many jobs may be due at one moment. retried: how far the walk over deferred_left has come.
ALTER TABLE windlass.deferred_watermark
    ADD COLUMN job     bigint NOT NULL DEFAULT 9223372036854775807,
    ADD COLUMN retried bigint NOT NULL DEFAULT 0;

-- Due jobs that the watermark has passed because another transaction had them locked; see promote.
CREATE TABLE windlass.deferred_left (id bigint PRIMARY KEY);

-- Whether any task has a limit is asked with every claim.
CREATE INDEX ON windlass.task_setting (name) WHERE concurrency IS NOT NULL;

-- Where an index has the id behind other columns, it is (id + 0), so that no look-up of a job by its id can use it: to a
-- planner that believes a table empty, reading all of such an index costs as much as one probe of the primary key [rule 8].
DROP INDEX windlass.deferred_run_at_id_idx, windlass.deferred_retrying_enqueued_at_id_idx, windlass.held_enqueued_at_id_idx,
           windlass.dead_enqueued_at_id_idx, windlass.dead_queue_enqueued_at_id_idx, windlass.parent_created_at_id_idx,
           windlass.parent_created_at_id_idx1, windlass.parent_state_enqueued_at_id_idx;
CREATE INDEX ON windlass.deferred (run_at, (id + 0));
CREATE INDEX ON windlass.deferred (retrying, enqueued_at, (id + 0));
CREATE INDEX ON windlass.held (enqueued_at, (id + 0));
CREATE INDEX ON windlass.dead (enqueued_at, (id + 0));
CREATE INDEX ON windlass.dead (queue, enqueued_at, (id + 0));
CREATE INDEX ON windlass.parent (created_at, (id + 0));
CREATE INDEX ON windlass.parent (created_at, (id + 0)) WHERE state = 'waiting';
CREATE INDEX ON windlass.parent (state, enqueued_at, (id + 0));
