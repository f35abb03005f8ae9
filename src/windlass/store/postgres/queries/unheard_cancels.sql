-- Parents whose cancel was asked for just when they were split, up to $1, in any order as in stirred. Callers:
-- PostgresStore.promote. Lock: none.
SELECT p.id FROM windlass.cancel_request q JOIN windlass.parent p ON p.id = q.job WHERE p.state = 'waiting'
 ORDER BY random() LIMIT $1
