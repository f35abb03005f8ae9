-- Parents whose cancel was asked for just when they were split, up to $1. Callers: PostgresStore.promote. Lock: none.
SELECT p.id FROM windlass.cancel_request q JOIN windlass.parent p ON p.id = q.job WHERE p.state = 'waiting' LIMIT $1
