-- Parts of a parent by index, $3 of them from $2 on: a range, so that no part outside of it is looked at. Callers: Parents.
-- Lock: none.
SELECT * FROM windlass.job_part
 WHERE parent = $1 AND index >= greatest($2::int, 0) AND index < greatest($2::int, 0)::bigint + $3::bigint ORDER BY index
