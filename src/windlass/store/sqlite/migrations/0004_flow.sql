-- Flow control: gates and their passes, the order of keys, budgets, governors, limits on load, and schedules.
--
-- More about windlass_job:
--   A held job (state 9) stands in the line of `gate`, or, where that is NULL, in the ring of fair keys. Lines are
--   in the order of `pos`: a job that joins one takes a new place in lane 0.
--   A job that has passes is never in state 2: its end has more to do.
--
-- More invariants:
--   I9   A pass names a job that has not ended. One that is put off has none but that of its ordering key; neither
--        has a parent.
--   I10  An ordering key has one pass at most, and nobody stands in its line while it has none.
--   I11  In a line for tokens, and nowhere else, a job says how many it needs; it has no pass of a key or a task.
--   I12  Tokens are put by for jobs that stand in their lanes, and for no others.

ALTER TABLE windlass_job ADD COLUMN gate TEXT;
ALTER TABLE windlass_job ADD COLUMN need INTEGER;
DROP INDEX windlass_job_held;
CREATE INDEX windlass_job_ring ON windlass_job (lane, fair_key) WHERE state = 9 AND gate IS NULL;
CREATE INDEX windlass_job_line ON windlass_job (gate) WHERE state = 9 AND gate IS NOT NULL;

-- Who is beyond a gate [F3]. At the gate of a budget `n` counts the tokens that are put by for the job, which are
-- none while it waits in another line; at any other it is 1.
CREATE TABLE windlass_pass (
    job   INTEGER NOT NULL,
    gate  TEXT NOT NULL,
    n     INTEGER NOT NULL,
    need  INTEGER,                          -- of a budget: the tokens that its claim will take,
    place INTEGER,                          -- where it stood in line, which is its place when it comes back,
    at    REAL,                             -- and when they were put by: others respect that for a while only
    PRIMARY KEY (job, gate)
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_pass_gate ON windlass_pass (gate, at, n);

-- Where promotion goes on with its walk over the lines.
CREATE TABLE windlass_walk (
    kind TEXT PRIMARY KEY,
    gate TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO windlass_walk (kind, gate) VALUES ('tokens', ''), ('slots', '');

-- How far ordering keys have come [F6].
CREATE TABLE windlass_watermark (
    queue    TEXT NOT NULL,
    key      TEXT NOT NULL,
    position INTEGER NOT NULL,
    at       REAL NOT NULL,
    PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_watermark_at ON windlass_watermark (at);

-- Budgets [F1] and what their breakers have seen [F7].
CREATE TABLE windlass_budget (
    name          TEXT PRIMARY KEY,
    rate          REAL NOT NULL,
    burst         INTEGER NOT NULL,
    key           TEXT,
    breaker       INTEGER NOT NULL,
    breaker_pause REAL NOT NULL,
    failures      INTEGER NOT NULL DEFAULT 0,
    openings      INTEGER NOT NULL DEFAULT 0,
    until         REAL NOT NULL DEFAULT 0,
    probing       INTEGER NOT NULL DEFAULT 0,
    drained_until REAL NOT NULL DEFAULT 0   -- all of its buckets were drained till then, those to come too
) STRICT, WITHOUT ROWID;

-- A bucket without a row is as full as a new one.
CREATE TABLE windlass_bucket (
    budget        TEXT NOT NULL,
    key           TEXT NOT NULL,
    tokens        REAL NOT NULL,
    at            REAL NOT NULL,
    blocked_until REAL NOT NULL,
    PRIMARY KEY (budget, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_bucket_at ON windlass_bucket (at);

-- The defaults are those of QueueRecord.
ALTER TABLE windlass_queue ADD COLUMN concurrency INTEGER;
ALTER TABLE windlass_queue ADD COLUMN governor INTEGER NOT NULL DEFAULT 0;
ALTER TABLE windlass_queue ADD COLUMN rate_min REAL NOT NULL DEFAULT 1;
ALTER TABLE windlass_queue ADD COLUMN rate_max REAL NOT NULL DEFAULT 1000;
ALTER TABLE windlass_queue ADD COLUMN max_depth INTEGER;
ALTER TABLE windlass_queue ADD COLUMN shed_depth INTEGER;
ALTER TABLE windlass_queue ADD COLUMN shed_wait REAL;
ALTER TABLE windlass_queue ADD COLUMN shed_latency REAL;
ALTER TABLE windlass_queue ADD COLUMN pressure TEXT NOT NULL DEFAULT 'none';  -- as of the last enqueue [F4]
ALTER TABLE windlass_queue ADD COLUMN refused INTEGER NOT NULL DEFAULT 0;
ALTER TABLE windlass_queue ADD COLUMN shed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE windlass_queue ADD COLUMN decided TEXT;     -- JSON: what its governor knows [F2]
ALTER TABLE windlass_queue ADD COLUMN reported TEXT;    -- JSON: runs since the governor last looked
ALTER TABLE windlass_queue ADD COLUMN tokens REAL;      -- the governor's bucket; NULL: full
ALTER TABLE windlass_queue ADD COLUMN tokens_at REAL;
CREATE INDEX windlass_queue_limited ON windlass_queue (name)
WHERE max_depth IS NOT NULL OR shed_depth IS NOT NULL OR shed_wait IS NOT NULL OR shed_latency IS NOT NULL;

ALTER TABLE windlass_task ADD COLUMN concurrency INTEGER;
ALTER TABLE windlass_task ADD COLUMN key_concurrency INTEGER;

-- How long the store took to answer, as the coordinator last saw it [F5].
CREATE TABLE windlass_observed (
    only    INTEGER PRIMARY KEY CHECK (only = 1),
    latency REAL NOT NULL,
    at      REAL NOT NULL
) STRICT;
INSERT INTO windlass_observed (only, latency, at) VALUES (1, 0, 0);

CREATE TABLE windlass_schedule (
    name       TEXT PRIMARY KEY,
    definition TEXT NOT NULL,               -- JSON: a NewSchedule
    paused     INTEGER NOT NULL DEFAULT 0,
    next_at    REAL,
    last_at    REAL,
    last_job   INTEGER,
    skipped    INTEGER NOT NULL DEFAULT 0,
    error      TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_schedule_due ON windlass_schedule (next_at) WHERE NOT paused AND next_at IS NOT NULL;
