-- Where replace_step goes on: past twins that run, also after a step that failed, so it obeys no transaction.
CREATE SEQUENCE windlass.replace_from MINVALUE 0 START 0 CACHE 1;
SELECT setval('windlass.replace_from', 0, true);

-- Tasks that have got a limit: what runs is counted by whoever first lets one of their jobs through. Rows are only added and
-- removed, so that nobody waits for who sets it.
CREATE TABLE windlass.uncounted_task (
    task text NOT NULL
);
