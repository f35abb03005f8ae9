-- Deaths of unique keys. Called by deaths under the write lock.

-- :died  a count that is long past begins anew
INSERT INTO windlass_key_death (key, deaths, last) VALUES (?1, 1, ?2)
ON CONFLICT (key) DO UPDATE SET deaths = CASE WHEN last > ?3 THEN deaths + 1 ELSE 1 END, last = ?2;

-- :went_well
DELETE FROM windlass_key_death WHERE key = ?;

-- :of_key
SELECT deaths, last FROM windlass_key_death WHERE key = ? AND last > ?;

-- :forget
DELETE FROM windlass_key_death WHERE key IN (SELECT key FROM windlass_key_death WHERE last <= ? LIMIT ?);
