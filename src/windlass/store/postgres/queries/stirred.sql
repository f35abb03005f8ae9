-- Parents that have not taken in yet how some of their parts ended, up to $1; in any order, so that many that somebody holds keep
-- nobody else waiting for long [S2]. Callers: PostgresStore.promote. Lock: none.
SELECT parent FROM (SELECT DISTINCT parent FROM windlass.part_event) AS e ORDER BY random() LIMIT $1
