-- The tables of the SQLite store. Every table is prefixed, so that they can live in an application's own file.
--
-- Invariants (tests/sqlite/invariants.py checks them; 0003_parents.sql has more):
--   I1  In a lane, beyond its cursor `hi`, stand exactly its ready jobs, each in state 2 or 3.
--   I2  In a lane, up to `hi`, every row belongs to the claim whose range lo..hi covers its seq; in state 2 or 3
--       it is running. (A deferred job stays there until it is offered again, though its claim may go; cancelled, it stays.)
--   I3  In lane 0 stand jobs without a place in a lane: scheduled before their first run, held, those that
--       ended while they waited, and parents.
--   I4  The counters of a lane equal a count of its jobs by state.
--   I5  A job's id is `id`, or `pos` where that is NULL. No seq is given out twice, so no two jobs share an id.

-- A lane is one queue × priority; lane 0 is reserved and only hands out places. The counters are kept in this
-- row because every operation that moves jobs writes it anyway (for `seq` or `hi`): they cost nothing and make
-- depth O(lanes), where counting index entries would take tens of milliseconds per million waiting jobs.
CREATE TABLE windlass_lane (
    id        INTEGER PRIMARY KEY CHECK (id BETWEEN 0 AND 524287),
    queue     TEXT NOT NULL,
    priority  INTEGER NOT NULL,
    seq       INTEGER NOT NULL DEFAULT 0,   -- the last place given out
    hi        INTEGER NOT NULL DEFAULT 0,   -- the cursor: the last place claimed
    served    TEXT,                         -- the fair key served last [C3]
    ready     INTEGER NOT NULL DEFAULT 0 CHECK (ready >= 0),    -- waiting in the lane
    held      INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0),     -- ready, but waiting for their fair key's turn
    running   INTEGER NOT NULL DEFAULT 0 CHECK (running >= 0),
    scheduled INTEGER NOT NULL DEFAULT 0 CHECK (scheduled >= 0),
    retrying  INTEGER NOT NULL DEFAULT 0 CHECK (retrying >= 0),
    dead      INTEGER NOT NULL DEFAULT 0 CHECK (dead >= 0),
    UNIQUE (queue, priority)
) STRICT;
INSERT INTO windlass_lane (id, queue, priority) VALUES (0, '', 0);

CREATE TABLE windlass_queue (
    name           TEXT PRIMARY KEY,
    paused         INTEGER NOT NULL DEFAULT 0,
    max_workers    INTEGER,
    retention      REAL,
    dead_retention REAL NOT NULL,
    window         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- state: 2 offered (ready or running, by the cursor) · 3 the same, and more is to be done when it ends (it holds
-- a unique key or a checkpoint, or its cancel is requested) · 4 succeeded · 5 dead · 6 cancelled · 7 scheduled ·
-- 8 retrying · 9 held. None is 0 or 1, which SQLite stores in no bytes: a plain success must not change the
-- size of its row, since a row of the same size is overwritten in place.
-- touched_at: when it became ready; once it has ended, when it ended. One column, for the same reason.
-- cancel: the worker that has to hear of the wish to cancel; 0 once nobody has to any more.
CREATE TABLE windlass_job (
    pos         INTEGER PRIMARY KEY,
    lane        INTEGER NOT NULL,           -- its lane, also while it stands in lane 0
    state       INTEGER NOT NULL,
    touched_at  REAL NOT NULL,
    enqueued_at REAL NOT NULL,
    number      INTEGER NOT NULL,           -- the order of creation over all lanes
    attempt     INTEGER NOT NULL,
    deaths      INTEGER NOT NULL,
    task        TEXT NOT NULL,
    payload     TEXT NOT NULL,
    options     TEXT,                       -- JSON; NULL: all default
    id          INTEGER,                    -- NULL: still at the place of its birth
    run_at      REAL,                       -- only while deferred
    cancel      INTEGER,
    fair_key    TEXT,
    reason      TEXT,
    errors      TEXT,                       -- JSON: the last 32 failures [O4]
    result      TEXT
) STRICT;

-- None of these holds an entry for a plain job that is enqueued, claimed and succeeds.
CREATE INDEX windlass_job_moved ON windlass_job (id) WHERE id IS NOT NULL;
CREATE INDEX windlass_job_due ON windlass_job (run_at, coalesce(id, pos)) WHERE run_at IS NOT NULL;
CREATE INDEX windlass_job_held ON windlass_job (lane, fair_key) WHERE state = 9;
CREATE INDEX windlass_job_held_since ON windlass_job (lane, touched_at) WHERE state = 9;
CREATE INDEX windlass_job_ended ON windlass_job (lane, state, touched_at) WHERE state IN (5, 6);
CREATE INDEX windlass_job_aside ON windlass_job (state, number) WHERE state > 4;
CREATE INDEX windlass_job_cancel ON windlass_job (cancel) WHERE cancel > 0;

-- Births: jobs number .. number + n - 1 were born with the ids lo .. lo + n - 1. One row per enqueue call (and
-- lane) does for listing newest first what an index on `number` would do at a third more work per enqueue.
CREATE TABLE windlass_birth (
    number INTEGER PRIMARY KEY,
    lo     INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    at     REAL NOT NULL
) STRICT;

-- A claim holds the jobs of a lane from place lo to place hi. AUTOINCREMENT: a fencing token is never used twice.
CREATE TABLE windlass_claim (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    lane       INTEGER NOT NULL,
    lo         INTEGER NOT NULL,
    hi         INTEGER NOT NULL,
    worker     INTEGER NOT NULL,
    unfinished INTEGER NOT NULL CHECK (unfinished >= 0),
    at         REAL NOT NULL
) STRICT;
CREATE UNIQUE INDEX windlass_claim_range ON windlass_claim (lane, hi);
CREATE INDEX windlass_claim_open ON windlass_claim (worker) WHERE unfinished > 0;

CREATE TABLE windlass_worker (
    id         INTEGER PRIMARY KEY,
    label      TEXT NOT NULL,
    host       TEXT NOT NULL,
    pid        INTEGER NOT NULL,
    queues     TEXT NOT NULL,               -- JSON
    machine    TEXT NOT NULL,
    boot       TEXT NOT NULL,
    alive      INTEGER NOT NULL,
    beat       INTEGER NOT NULL DEFAULT 0,
    started_at REAL NOT NULL,
    beat_at    REAL NOT NULL
) STRICT;

-- Which attempts a flush ended, as ranges of seqs per claim: how a flush sent again is told from a new one [C5].
CREATE TABLE windlass_flush (
    worker INTEGER NOT NULL,
    flush  INTEGER NOT NULL,
    claim  INTEGER NOT NULL,
    seqs   TEXT NOT NULL,                   -- JSON: [[lower, upper), …]
    PRIMARY KEY (worker, flush, claim)
) STRICT, WITHOUT ROWID;

CREATE TABLE windlass_unique (
    key   TEXT PRIMARY KEY,
    job   INTEGER NOT NULL,
    rerun TEXT                              -- JSON: the job to enqueue when this one has ended [E6]
) STRICT, WITHOUT ROWID;

CREATE TABLE windlass_idempotency (
    key TEXT PRIMARY KEY,
    job INTEGER NOT NULL,
    at  REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_idempotency_at ON windlass_idempotency (at);

CREATE TABLE windlass_checkpoint (
    job   INTEGER PRIMARY KEY,
    data  TEXT NOT NULL,
    done  INTEGER,
    total INTEGER,
    at    REAL NOT NULL
) STRICT;
