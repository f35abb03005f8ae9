-- Measures: what processes tell, the rows of charts that this is rolled up into, and timelines. None of it is
-- written where a job is enqueued, claimed or finished.

-- Who tells: a worker, or any other process. `number` is that of its last news: what is not higher was told before.
CREATE TABLE windlass_teller (
    source    INTEGER PRIMARY KEY,
    number    INTEGER NOT NULL,
    at        REAL NOT NULL,
    vitals    TEXT,                         -- JSON: how it was doing when it last said so [M3]
    vitals_at REAL
) STRICT;
CREATE INDEX windlass_teller_at ON windlass_teller (at);

-- What was told and not yet rolled up.
CREATE TABLE windlass_news (
    id      INTEGER PRIMARY KEY,
    samples TEXT NOT NULL                   -- JSON
) STRICT;

-- The rows of charts [M1]: span 60 a minute, 3600 an hour, 0 all time. Of everything, where queue and task are ''. Not
-- WITHOUT ROWID: such a row may fill a quarter of a page, and what is longer takes a page of its own.
CREATE TABLE windlass_rollup (
    span   INTEGER NOT NULL,
    queue  TEXT NOT NULL,
    task   TEXT NOT NULL,
    at     INTEGER NOT NULL,
    sample BLOB NOT NULL,                   -- packed: see store/telling.py
    UNIQUE (span, queue, task, at)
) STRICT;
CREATE INDEX windlass_rollup_at ON windlass_rollup (span, at);

-- Timelines [M2]. AUTOINCREMENT: later events have higher numbers, also once all others have gone.
CREATE TABLE windlass_event (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      REAL NOT NULL,
    kind    TEXT NOT NULL,
    told    TEXT NOT NULL,
    job     INTEGER,
    queue   TEXT NOT NULL,
    task    TEXT NOT NULL,
    worker  TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    ms      REAL
) STRICT;
CREATE INDEX windlass_event_job ON windlass_event (job) WHERE job IS NOT NULL;
CREATE INDEX windlass_event_queue ON windlass_event (queue);
