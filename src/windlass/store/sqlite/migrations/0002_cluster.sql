-- The cluster: more settings of queues, their cool-downs, who coordinates, and the slots of workers.

-- The defaults are those of QueueRecord.
ALTER TABLE windlass_queue ADD COLUMN safety_bound REAL NOT NULL DEFAULT 3600;
ALTER TABLE windlass_queue ADD COLUMN backoff INTEGER NOT NULL DEFAULT 1;
ALTER TABLE windlass_queue ADD COLUMN backoff_base REAL NOT NULL DEFAULT 5;
ALTER TABLE windlass_queue ADD COLUMN backoff_cap REAL NOT NULL DEFAULT 1800;
ALTER TABLE windlass_queue ADD COLUMN cool_base REAL NOT NULL DEFAULT 60;
ALTER TABLE windlass_queue ADD COLUMN cool_cap REAL NOT NULL DEFAULT 1800;
ALTER TABLE windlass_queue ADD COLUMN throttles INTEGER NOT NULL DEFAULT 0;   -- since it last went well [O3]
ALTER TABLE windlass_queue ADD COLUMN cool_until REAL NOT NULL DEFAULT 0;     -- the end of the last cool-down

ALTER TABLE windlass_worker ADD COLUMN lease REAL NOT NULL DEFAULT 30;

-- The present term, or the last one [K3]. Its number only grows: that is what a late write is refused by.
CREATE TABLE windlass_term (
    only   INTEGER PRIMARY KEY CHECK (only = 1),
    number INTEGER NOT NULL,
    holder INTEGER,                         -- NULL: given up
    until  REAL NOT NULL
) STRICT;
INSERT INTO windlass_term (only, number, until) VALUES (1, 0, 0);

-- The slots that the coordinator gave to each worker [K1].
CREATE TABLE windlass_slot (
    worker INTEGER NOT NULL,
    queue  TEXT NOT NULL,
    slots  INTEGER NOT NULL CHECK (slots >= 0),
    PRIMARY KEY (worker, queue)
) STRICT, WITHOUT ROWID;
