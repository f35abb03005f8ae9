-- What the imported table holds as a whole. Callers: proof.look. Lock: none.
SELECT count(*), count(DISTINCT id), min(id), max(id), CAST(sum(amount) AS bigint) FROM {table}
