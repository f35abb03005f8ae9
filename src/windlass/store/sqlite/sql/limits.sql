-- What settings limit. Called by limits.Limits under the write lock.

-- :all  tasks of which only so many run at a time, and queues that do not take any job at any time; mostly neither
SELECT 'task', name, concurrency, key_concurrency FROM windlass_task
WHERE concurrency IS NOT NULL OR key_concurrency IS NOT NULL
UNION ALL
SELECT 'queue', name, NULL, NULL FROM windlass_queue
WHERE max_depth IS NOT NULL OR shed_depth IS NOT NULL OR shed_wait IS NOT NULL OR shed_latency IS NOT NULL;

-- :paused
SELECT name FROM windlass_queue WHERE paused;

-- :served
SELECT queues FROM windlass_worker WHERE alive;
