-- Gates and passes. Called by gates.Gates under the write lock; a range of gates is `>= 'x:'` and `< 'x;'`, which is
-- every name that begins with `x:`.

-- :line
SELECT 1 FROM windlass_job WHERE state = 9 AND gate = ? LIMIT 1;

-- :passes  jobs beyond a gate that is not a budget's
SELECT total(n) FROM windlass_pass WHERE gate = ?;

-- :promised  tokens of a budget that were put by since then; not at a time to come, for then the clock has gone back
SELECT total(n) FROM windlass_pass WHERE gate = ? AND at > ? AND at <= ?;

-- :first_promised  when the first of them were
SELECT min(at) FROM windlass_pass WHERE gate = ? AND at > ? AND at <= ? AND n > 0;

-- :held_by
SELECT gate FROM windlass_pass WHERE job = ?;

-- :held_by_many
SELECT job, gate FROM windlass_pass WHERE job IN (SELECT value FROM json_each(?));

-- :give
INSERT INTO windlass_pass (job, gate, n) VALUES (?, ?, 1) ON CONFLICT DO NOTHING;

-- :put_by
INSERT INTO windlass_pass (job, gate, n, need, place, at) VALUES (?1, ?2, ?3, ?3, ?4, ?5);

-- :drop_all
DELETE FROM windlass_pass WHERE job = ? RETURNING gate, n, at;

-- :drop_some  all but that of its ordering key
DELETE FROM windlass_pass WHERE job = ? AND NOT (gate >= 'order:' AND gate < 'order;') RETURNING gate, n, at;

-- :drop_slots  those of its concurrency key and its task
DELETE FROM windlass_pass
WHERE job = ? AND NOT (gate >= 'order:' AND gate < 'order;') AND NOT (gate >= 'budget:' AND gate < 'budget;')
RETURNING gate, n, at;

-- :use_up  the passes of budgets
DELETE FROM windlass_pass WHERE job = ? AND gate >= 'budget:' AND gate < 'budget;' RETURNING gate, n, at;

-- :reserved  those of many jobs
SELECT job, gate FROM windlass_pass
WHERE job IN (SELECT value FROM json_each(?)) AND gate >= 'budget:' AND gate < 'budget;';

-- :stand_back
UPDATE windlass_pass SET n = 0 WHERE job = ? AND gate >= 'budget:' AND gate < 'budget;' AND n > 0
RETURNING gate, need, at;

-- :come_forward
UPDATE windlass_pass SET n = need, at = ?2 WHERE job = ?1 AND gate >= 'budget:' AND gate < 'budget;' AND n = 0
RETURNING gate, need;

-- :come_back
DELETE FROM windlass_pass WHERE job = ? AND gate = ? RETURNING place;

-- :bind  from now on its end has more to do
UPDATE windlass_job SET state = 3 WHERE pos = ? AND state = 2;
