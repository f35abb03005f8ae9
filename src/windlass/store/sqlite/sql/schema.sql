-- The version of the schema. Called by schema.migrate; `write` under the write lock.

-- :exists
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'windlass_schema';

-- :read
SELECT version FROM windlass_schema;

-- :write
INSERT INTO windlass_schema (only, version)
VALUES (1, ?) ON CONFLICT DO UPDATE SET version = excluded.version;
