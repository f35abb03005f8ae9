-- What keeps the rotation from reclaiming a segment, and for how many seconds. Callers: diagnosis. Lock: none.
SELECT r.victim, r.blocked, date_part('epoch', windlass.now() - r.blocked_since) AS seconds
  FROM windlass.rotation r WHERE r.blocked IS NOT NULL
