-- promote behind an enqueue, which is committed: it waits for nobody's lock for long. The setting ends with the statement.
SELECT set_config('lock_timeout', '100ms', true), windlass.promote($1)
