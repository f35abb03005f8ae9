-- Parts of a parent by index, $3 of them from $2 on, each by itself, so that no part outside of them is looked at, however many
-- the planner believes there are. Callers: Parents. Lock: none.
SELECT p.*
  FROM generate_series(greatest($2::int, 0), (SELECT least(greatest($2::int, 0)::bigint + $3::bigint, x.total) - 1
                                                FROM windlass.parent x WHERE x.id = $1)) AS g (index)
 CROSS JOIN LATERAL (SELECT * FROM windlass.job_part x WHERE x.parent = $1 AND x.index = g.index OFFSET 0) AS p
 ORDER BY g.index
