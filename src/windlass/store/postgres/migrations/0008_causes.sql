-- The type of a dead job's last failure, '' for none, so that dead jobs are found and counted by it without reading the
-- tracebacks of all of their failures. NULL in rows from before this column: there `errors` says it.
ALTER TABLE windlass.dead ADD COLUMN error text;

-- It has one argument more.
DROP FUNCTION IF EXISTS windlass.list_aside(text, text, text, text, text[], timestamptz[], bigint[], int);
