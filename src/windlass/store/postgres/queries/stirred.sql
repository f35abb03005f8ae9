-- Parents that have not taken in yet how some of their parts ended, up to $1. Callers: PostgresStore.promote. Lock: none.
SELECT DISTINCT parent FROM windlass.part_event LIMIT $1
