-- Schedules. Called by schedules: `all` and `due` by readers, the rest under the write lock.

-- :all
SELECT definition, {schedule} FROM windlass_schedule ORDER BY name;

-- :due  what is not due is not looked at, however many there are
SELECT definition, {schedule} FROM windlass_schedule
WHERE NOT paused AND next_at <= ? ORDER BY next_at, name LIMIT ?;

-- :ahead  those that are not due, and whose last fire lies in the future: the clock was set back
SELECT definition, {schedule} FROM windlass_schedule
WHERE NOT paused AND last_at > ?1 + 1 AND next_at > ?1 ORDER BY last_at LIMIT ?2;

-- :next  when the next one is due that is not
SELECT min(next_at) FROM windlass_schedule WHERE NOT paused AND next_at > ?;

-- :named
SELECT definition, {schedule} FROM windlass_schedule WHERE name = ?;

-- :keep
INSERT INTO windlass_schedule (name, definition, {schedule}) VALUES (?, ?, {schedule ?})
ON CONFLICT (name) DO UPDATE SET definition = excluded.definition, {schedule =};

-- :drop
DELETE FROM windlass_schedule WHERE name = ?;
