-- Schedules that are due and not paused, the one due longest first, up to $1, and the time; one row without a name where there
-- are none. Callers: Schedules. Lock: none.
SELECT s.*, t.now
  FROM windlass.epoch() AS t (now)
  LEFT JOIN LATERAL (SELECT * FROM windlass.schedule x WHERE NOT x.paused AND x.next_at <= t.now
                      ORDER BY x.next_at, x.name COLLATE "C" LIMIT $1) AS s ON true
 ORDER BY s.next_at, s.name COLLATE "C"
