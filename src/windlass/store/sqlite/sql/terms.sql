-- Terms. Called by terms under the write lock.

-- :term
SELECT number, holder, until FROM windlass_term;

-- :lead
UPDATE windlass_term SET number = ?, holder = ?, until = ?;

-- :resign
UPDATE windlass_term SET holder = NULL, until = 0 WHERE holder = ?;
