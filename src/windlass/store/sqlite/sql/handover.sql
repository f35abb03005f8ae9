-- What is handed over. Called by handover under the write lock.

-- :lanes  of these queues
SELECT queue, id FROM windlass_lane WHERE queue IN (SELECT value FROM json_each(?));
