-- Where replace_step goes on: past twins that run, also after a step that failed, so it obeys no transaction.
CREATE SEQUENCE windlass.replace_from MINVALUE 0 START 0 CACHE 1;
SELECT setval('windlass.replace_from', 0, true);

-- Tasks that have got a limit: what runs is counted by whoever first lets one of their jobs through. Rows are only added and
-- removed, so that nobody waits for who sets it.
CREATE TABLE windlass.uncounted_task (
    task text NOT NULL
);
ALTER TABLE windlass.uncounted_task REPLICA IDENTITY FULL;  -- as in 0010

-- When all buckets of a budget were drained last; and `at` of a bucket is never a time to come any more.
ALTER TABLE windlass.budget ADD COLUMN drained_at float8 NOT NULL DEFAULT 0;
UPDATE windlass.bucket SET at = date_part('epoch', clock_timestamp()) WHERE at > date_part('epoch', clock_timestamp());

-- These take or answer more from now on.
DROP FUNCTION IF EXISTS windlass.redrive_parts(bigint);
DROP FUNCTION IF EXISTS windlass.count_running(text);
