-- The version of the schema. Called by schema.migrate; `create` and `write` under the write lock.

-- :create
CREATE TABLE IF NOT EXISTS windlass_schema (only INTEGER PRIMARY KEY CHECK (only = 1), version INTEGER NOT NULL) STRICT;

-- :exists
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'windlass_schema';

-- :read
SELECT version FROM windlass_schema;

-- :write
INSERT INTO windlass_schema (only, version) VALUES (1, ?) ON CONFLICT DO UPDATE SET version = excluded.version;
