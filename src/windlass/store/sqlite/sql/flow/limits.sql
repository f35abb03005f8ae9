-- Limits, gates and ordering keys. Called by limits under the write lock; `watermarks`, `watermark`,
-- `turn_since`, `next_since` and `count_waiting` by readers. A range of gates is `>= 'x:'` and `< 'x;'`,
-- which is every name that begins with `x:`.

-- ── limits ─────────────────────────────────────────────────────────────────────────────────────────────────

-- :limited  tasks of which only so many run at a time, and queues that do not take any job at any time;
-- mostly neither
SELECT 'task', name, concurrency, key_concurrency FROM windlass_task
WHERE concurrency IS NOT NULL OR key_concurrency IS NOT NULL
UNION ALL
SELECT 'queue', name, NULL, NULL FROM windlass_queue
WHERE max_depth IS NOT NULL OR shed_depth IS NOT NULL OR shed_wait IS NOT NULL OR shed_latency IS NOT NULL;

-- :paused  whether a queue is
SELECT name, paused FROM windlass_queue;

-- :served
SELECT queues, abilities FROM windlass_worker WHERE alive;

-- ── gates and passes ───────────────────────────────────────────────────────────────────────────────────────

-- :anyone_waits
SELECT 1 FROM windlass_job WHERE state = 9 AND gate = ? LIMIT 1;

-- :passes  jobs beyond a gate that is not a budget's
SELECT {places} FROM windlass_pass p WHERE gate = ?;

-- :reserved_tokens  tokens of a budget that were reserved since then; not at a time to come, for then the
-- clock has gone back
SELECT total(n) FROM windlass_pass WHERE gate = ? AND at > ? AND at <= ?;

-- :first_reserved  when the first of them were
SELECT min(at) FROM windlass_pass WHERE gate = ? AND at > ? AND at <= ? AND n > 0;

-- :held_by
SELECT gate FROM windlass_pass WHERE job = ?;

-- :held_by_many
SELECT job, gate FROM windlass_pass WHERE job IN (SELECT value FROM json_each(?));

-- :give
INSERT INTO windlass_pass (job, gate, n) VALUES (?, ?, 1) ON CONFLICT DO NOTHING;

-- :reserve
INSERT INTO windlass_pass (job, gate, n, need, place, at) VALUES (?1, ?2, ?3, ?3, ?4, ?5);

-- :drop_all
DELETE FROM windlass_pass WHERE job = ? RETURNING gate, run, place, n, at;

-- :drop_many
DELETE FROM windlass_pass WHERE job IN (SELECT value FROM json_each(?)) RETURNING job, gate, run, place, n, at;

-- :drop_some  all but that of its ordering key
DELETE FROM windlass_pass WHERE job = ? AND NOT (gate >= 'order:' AND gate < 'order;')
RETURNING gate, run, place, n, at;

-- :drop_slots  those of its concurrency key and its task
DELETE FROM windlass_pass
WHERE job = ? AND NOT (gate >= 'order:' AND gate < 'order;') AND NOT (gate >= 'budget:' AND gate < 'budget;')
RETURNING gate, run, place, n, at;

-- :spend_reservations  the passes of budgets
DELETE FROM windlass_pass WHERE job = ? AND gate >= 'budget:' AND gate < 'budget;'
RETURNING gate, run, place, n, at;

-- :reservations  those of many jobs
SELECT job, gate FROM windlass_pass
WHERE job IN (SELECT value FROM json_each(?)) AND gate >= 'budget:' AND gate < 'budget;';

-- :any_reserved
SELECT 1 FROM windlass_pass WHERE gate >= 'budget:' AND gate < 'budget;' LIMIT 1;

-- :suspend_reservation
UPDATE windlass_pass SET n = 0 WHERE job = ? AND gate >= 'budget:' AND gate < 'budget;' AND n > 0
RETURNING gate, run, place, need, at;

-- :resume_reservation
UPDATE windlass_pass SET n = need, at = ?2 WHERE job = ?1 AND gate >= 'budget:' AND gate < 'budget;' AND n = 0
RETURNING gate, need;

-- :call_back  that of one gate
DELETE FROM windlass_pass WHERE job = ? AND gate = ? RETURNING gate, run, place, n, at;

-- :beyond  the jobs that hold a pass of a gate
SELECT job FROM windlass_pass WHERE gate = ?;

-- :cancel_reservation
DELETE FROM windlass_pass WHERE job = ? AND gate = ? RETURNING place;

-- :bind  from now on its end has more to do
UPDATE windlass_job SET state = 3 WHERE pos = ? AND state = 2;

-- ── ordering keys ──────────────────────────────────────────────────────────────────────────────────────────

-- :begin_order  the first job of a key has its turn
INSERT INTO windlass_watermark (queue, key, position, at) VALUES (?, ?, 0, ?) ON CONFLICT DO NOTHING;

-- :runs_left  the runs at these gates, each with the place of the first that has not ended
SELECT gate, run, min(place) FROM windlass_pass
WHERE gate IN (SELECT value FROM json_each(?)) AND run IS NOT NULL GROUP BY gate, run;

-- :advance_order
UPDATE windlass_watermark SET position = position + ?, at = ? WHERE queue = ? AND key = ?;

-- :watermarks
SELECT queue, key, position, at FROM windlass_watermark WHERE queue = ? ORDER BY key LIMIT ?;

-- :watermark
SELECT queue, key, position, at FROM windlass_watermark WHERE queue = ? AND key = ?;

-- :turn_since  since when the one whose turn it is exists
SELECT enqueued_at FROM windlass_job WHERE id IS NULL
  AND pos IN (SELECT job FROM windlass_pass WHERE gate = ?1)
UNION ALL
SELECT enqueued_at FROM windlass_job WHERE id IN (SELECT job FROM windlass_pass WHERE gate = ?1);

-- :next_since  since when the next of them exists
SELECT enqueued_at FROM windlass_job WHERE state = 9 AND gate = ? ORDER BY pos LIMIT 1;

-- :count_waiting
SELECT count(*) FROM (SELECT 1 FROM windlass_job WHERE state = 9 AND gate = ? LIMIT ?);

-- :forget_ordering_keys  keys that nobody has used for long
DELETE FROM windlass_watermark WHERE (queue, key) IN (
    SELECT queue, key FROM windlass_watermark w
    WHERE at <= ?
      AND NOT EXISTS (SELECT 1 FROM windlass_pass p WHERE p.gate = 'order:' || w.queue || '/' || w.key)
    LIMIT ?);

-- :load  of a queue that has limits, and how deep it is
SELECT q.max_depth, q.shed_depth, q.shed_wait, q.shed_latency, q.pressure,
       (SELECT total(l.ready + l.held) FROM windlass_lane l WHERE l.queue = q.name)
FROM windlass_queue q WHERE q.name = ?;

-- :press
UPDATE windlass_queue SET pressure = ? WHERE name = ?;
