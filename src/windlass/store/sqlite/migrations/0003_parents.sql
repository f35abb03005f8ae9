-- Parents and their parts, jobs that come after others, deaths of unique keys, settings of tasks, and turns.
--
-- More about windlass_job:
--   state 10: a parent that waits for its parts. It stands in lane 0 [I3] and keeps its unique key.
--   A scheduled job without a run_at waits for other jobs: it has edges in windlass_after.
--   The job of a part, and one that others come after, are never in state 2: their end has more to do.
--
-- More invariants:
--   I6  The counters of a parent equal a count of its parts by state, and `done` and `records` their sums.
--   I7  A part is out (1) if and only if the job it names has not ended. A parent that has not ended waits
--       (state 10), and either parts of it are out, or its finalizer is.
--   I8  The job at the waiting end of an edge is scheduled without a run_at, and no other is. At the other end is
--       one that has not ended, or windlass_awaited says how it did.

CREATE TABLE windlass_parent (
    number      INTEGER PRIMARY KEY,        -- the order in which parents were split
    id          INTEGER NOT NULL UNIQUE,    -- its job, which lives as long as this row
    lane        INTEGER NOT NULL,
    state       INTEGER NOT NULL,           -- that of its job: 10, or how it ended
    worker      INTEGER NOT NULL,           -- who split it, and under which claim: how a split sent again is
    claim       INTEGER NOT NULL,           -- told from a late one [C5]
    total       INTEGER NOT NULL,
    succeeded   INTEGER NOT NULL DEFAULT 0 CHECK (succeeded >= 0),
    dead        INTEGER NOT NULL DEFAULT 0 CHECK (dead >= 0),
    cancelled   INTEGER NOT NULL DEFAULT 0 CHECK (cancelled >= 0),
    out         INTEGER NOT NULL DEFAULT 0 CHECK (out >= 0),
    parallel    INTEGER NOT NULL,
    tolerated   INTEGER NOT NULL,
    finalizer   INTEGER NOT NULL,           -- whether there is to be one
    final       INTEGER,                    -- its job, once it was released
    final_state INTEGER,                    -- how that one ended
    result      TEXT,                       -- what it returned
    cancelling  INTEGER NOT NULL DEFAULT 0,
    size        INTEGER NOT NULL,
    done        INTEGER NOT NULL DEFAULT 0,
    records     INTEGER NOT NULL DEFAULT 0,
    created_at  REAL NOT NULL,
    finished_at REAL,
    CHECK (succeeded + dead + cancelled + out <= total)
) STRICT;
CREATE INDEX windlass_parent_active ON windlass_parent (number) WHERE finished_at IS NULL;
CREATE INDEX windlass_parent_ended ON windlass_parent (lane, state, finished_at) WHERE finished_at IS NOT NULL;

-- state: 0 not yet released · 1 out · 4, 5 and 6 as in windlass_job.
-- What a part has saved is in its job's checkpoint while it is out, and here before and afterwards.
CREATE TABLE windlass_part (
    parent  INTEGER NOT NULL,               -- the id of its parent
    number  INTEGER NOT NULL,               -- its index, from 0
    state   INTEGER NOT NULL,
    size    INTEGER NOT NULL,
    span    TEXT NOT NULL,
    job     INTEGER,                        -- the job that runs it, or ran it last
    attempt INTEGER NOT NULL DEFAULT 0,     -- of that job, when it ended
    done    INTEGER NOT NULL DEFAULT 0,
    records INTEGER NOT NULL DEFAULT 0,
    error   TEXT,
    data    TEXT,                           -- the checkpoint it ended with, if not well
    goal    INTEGER,                        -- its total
    at      REAL,
    PRIMARY KEY (parent, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_part_open ON windlass_part (parent, state, number) WHERE state <> 4;

-- Edges: `job` waits for `awaited` [P12].
CREATE TABLE windlass_after (
    awaited INTEGER NOT NULL,
    job     INTEGER NOT NULL,
    run_at  REAL,                           -- before which it is not due, whatever they do
    PRIMARY KEY (awaited, job)
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_after_job ON windlass_after (job);

-- How awaited jobs have ended, until `promote` has seen to all who waited for them: a job may be awaited by so many
-- that its own end cannot do that.
CREATE TABLE windlass_awaited (
    job   INTEGER PRIMARY KEY,
    state INTEGER NOT NULL                  -- 4, 5 or 6
) STRICT;

-- How often the jobs of a unique key have died in a row [O7].
CREATE TABLE windlass_key_death (
    key    TEXT PRIMARY KEY,
    deaths INTEGER NOT NULL,
    last   REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_key_death_last ON windlass_key_death (last);

-- Settings of tasks; NULL means what the code says [P6].
CREATE TABLE windlass_task (
    name          TEXT PRIMARY KEY,
    batch         INTEGER,
    batch_timeout REAL,
    parallel      INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE windlass_turn (
    name TEXT PRIMARY KEY,
    at   REAL NOT NULL
) STRICT, WITHOUT ROWID;
