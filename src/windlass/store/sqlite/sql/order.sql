-- The watermarks of ordering keys. Called by order: `all`, `of_key`, `turn`, `next` and `count` by readers, the rest under the
-- write lock.

-- :begin  the first job of a key has its turn
INSERT INTO windlass_watermark (queue, key, position, at) VALUES (?, ?, 0, ?) ON CONFLICT DO NOTHING;

-- :advance
UPDATE windlass_watermark SET position = position + 1, at = ? WHERE queue = ? AND key = ?;

-- :all
SELECT queue, key, position, at FROM windlass_watermark WHERE queue = ? ORDER BY key LIMIT ?;

-- :of_key
SELECT queue, key, position, at FROM windlass_watermark WHERE queue = ? AND key = ?;

-- :turn  since when the one whose turn it is exists
SELECT enqueued_at FROM windlass_job WHERE id IS NULL AND pos IN (SELECT job FROM windlass_pass WHERE gate = ?1)
UNION ALL
SELECT enqueued_at FROM windlass_job WHERE id IN (SELECT job FROM windlass_pass WHERE gate = ?1);

-- :next  since when the next of them exists
SELECT enqueued_at FROM windlass_job WHERE state = 9 AND gate = ? ORDER BY pos LIMIT 1;

-- :count
SELECT count(*) FROM (SELECT 1 FROM windlass_job WHERE state = 9 AND gate = ? LIMIT ?);

-- :forget  keys that nobody has used for long
DELETE FROM windlass_watermark WHERE (queue, key) IN (
    SELECT queue, key FROM windlass_watermark w
    WHERE at <= ?
      AND NOT EXISTS (SELECT 1 FROM windlass_pass p WHERE p.gate = 'order:' || w.queue || '/' || w.key)
    LIMIT ?);
