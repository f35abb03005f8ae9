-- The version of the schema; `read` also finds those that had fewer columns. Called by schema.migrate; `write` under the write lock.

-- :exists
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'windlass_schema';

-- :read
SELECT * FROM windlass_schema;

-- :write
INSERT INTO windlass_schema (only, version, origin)
VALUES (1, ?, ?) ON CONFLICT DO UPDATE SET version = excluded.version;
