-- Schedules that are due and not paused, the one due longest first, or that fired at a time which is yet to come, up to $1, and
-- the time; one row without a name where there are none. Callers: Schedules. Lock: none.
SELECT s.*, t.now
  FROM windlass.epoch() AS t (now)
  LEFT JOIN LATERAL (SELECT * FROM windlass.schedule x WHERE NOT x.paused AND (x.next_at <= t.now OR x.last_at > t.now + 1)
                      ORDER BY x.next_at, x.name COLLATE "C" LIMIT $1) AS s ON true
 ORDER BY s.next_at, s.name COLLATE "C"
