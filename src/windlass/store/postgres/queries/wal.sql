-- Bytes of write-ahead log since the server was made; NULL on a replica. Callers: Health. Lock: none.
SELECT CASE WHEN NOT pg_is_in_recovery() THEN (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint END AS bytes
