-- What processes tell, and the rollup of it. Called by news under the write lock.

-- :last  the number of the last news of a process
SELECT number FROM windlass_teller WHERE source = ?;

-- :teller  vitals that were not told again stay
INSERT INTO windlass_teller (source, number, at, vitals, vitals_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET number = excluded.number, at = excluded.at,
    vitals = coalesce(excluded.vitals, vitals), vitals_at = coalesce(excluded.vitals_at, vitals_at);

-- :news
INSERT INTO windlass_news (samples) VALUES (?);

-- :event
INSERT INTO windlass_event (at, kind, told, job, queue, task, worker, attempt, ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- :oldest
SELECT id, samples FROM windlass_news ORDER BY id LIMIT ?;

-- :forget  what was folded, and so the oldest up to this one
DELETE FROM windlass_news WHERE id <= ?;

-- :any
SELECT EXISTS (SELECT 1 FROM windlass_news);

-- :row
SELECT sample FROM windlass_rollup WHERE span = ? AND queue = ? AND task = ? AND at = ?;

-- :write
INSERT INTO windlass_rollup (span, queue, task, at, sample) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET sample = excluded.sample;

-- :remove_rows
DELETE FROM windlass_rollup WHERE rowid IN (
    SELECT rowid FROM windlass_rollup WHERE span = ? AND at < ? ORDER BY at LIMIT ?);

-- :remove_events  among the first ones: those that are old, and those that are too many
DELETE FROM windlass_event WHERE id IN (SELECT id FROM windlass_event ORDER BY id LIMIT ?3)
  AND (at <= ?1 OR id <= (SELECT max(id) FROM windlass_event) - ?2);

-- :remove_tellers  who is silent for long and no worker that is alive
DELETE FROM windlass_teller WHERE source IN (
    SELECT t.source FROM windlass_teller t
    WHERE t.at <= ? AND NOT EXISTS (SELECT 1 FROM windlass_worker w WHERE w.id = t.source AND w.alive) LIMIT ?);
