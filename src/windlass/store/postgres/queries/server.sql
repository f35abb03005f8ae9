-- The server's version and its clock. Callers: diagnosis. Lock: none.
SELECT current_setting('server_version_num')::int AS number, current_setting('server_version') AS version,
       date_part('epoch', clock_timestamp()) AS now
