-- The tables of the SQLite store. Every name is prefixed, so that they can live in an application's own file.
--
-- Invariants (tests/store/sqlite/invariants.py, families.py and gating.py check them):
--   I1   In a lane, beyond its cursor `hi`, are exactly its ready jobs, each in state 2 or 3.
--   I2   In a lane, up to `hi`, every row belongs to the claim whose range lo..hi covers its seq; in state 2
--        or 3 it is running. (A deferred job stays there until it is offered again, though its claim may go;
--        cancelled, it stays.)
--   I3   In lane 0 are jobs without a place in a lane: scheduled before their first run, held, those that
--        ended while they waited, and parents.
--   I4   The counters of a lane equal a count of its jobs by state.
--   I5   A job's id is `id`, or `pos` where that is NULL. No seq is given out twice, so no two jobs share an
--        id.
--   I6   The counters of a parent equal a count of its parts by state, and `done` and `records` their sums.
--   I7   A part is out (1) if and only if the job it names has not ended. A parent that has not ended waits
--        (state 10), and either parts of it are out, or its finalizer is.
--   I8   The job at the waiting end of an edge is scheduled without a run_at, and no other is. At the other
--        end is one that has not ended, or windlass_awaited says how it did.
--   I9   A pass names a job that has not ended. A deferred job has none but that of its ordering key; neither
--        has a parent.
--   I10  An ordering key has one pass at most, or those of one run, and nobody is on its waiting list while it
--        has none.
--   I11  A job says how many tokens it needs while it waits for tokens, and nowhere else; it has no pass of a
--        key or a task then.
--   I12  Tokens are reserved for jobs in their lanes, and for no others.
--   I13  A pass of a run knows the place that its job had on the waiting list. Of an ordering key all jobs of a
--        run are running, but for the first of them.

-- ── the schema ─────────────────────────────────────────────────────────────────────────────────────────────

-- identity: what this file is known by where its jobs are copied to; a backup has the same. origin: of which
-- first migration it is.
CREATE TABLE windlass_schema (
    only     INTEGER PRIMARY KEY CHECK (only = 1),
    version  INTEGER NOT NULL,
    origin   TEXT NOT NULL,
    identity TEXT NOT NULL DEFAULT (lower(hex(randomblob(16))))
) STRICT;

-- ── queues and lanes ───────────────────────────────────────────────────────────────────────────────────────

-- The defaults are those of QueueRecord.
CREATE TABLE windlass_queue (
    name           TEXT PRIMARY KEY,
    paused         INTEGER NOT NULL DEFAULT 0,
    max_workers    INTEGER,
    process_slots  INTEGER,
    retention      REAL,
    dead_retention REAL NOT NULL,
    window         INTEGER NOT NULL,
    safety_bound   REAL NOT NULL DEFAULT 3600,
    backoff        INTEGER NOT NULL DEFAULT 1,
    backoff_base   REAL NOT NULL DEFAULT 5,
    backoff_cap    REAL NOT NULL DEFAULT 1800,
    cool_base      REAL NOT NULL DEFAULT 60,
    cool_cap       REAL NOT NULL DEFAULT 1800,
    concurrency    INTEGER,
    governor       INTEGER NOT NULL DEFAULT 0,
    rate_min       REAL NOT NULL DEFAULT 1,
    rate_max       REAL NOT NULL DEFAULT 1000,
    max_depth      INTEGER,
    shed_depth     INTEGER,
    shed_wait      REAL,
    shed_latency   REAL,
    throttles      INTEGER NOT NULL DEFAULT 0,  -- since it last went well [O3]
    cool_until     REAL NOT NULL DEFAULT 0,     -- the end of the last cool-down
    pressure       TEXT NOT NULL DEFAULT 'none',    -- as of the last enqueue [F4]
    refused        INTEGER NOT NULL DEFAULT 0,
    shed           INTEGER NOT NULL DEFAULT 0,
    decided        TEXT,                        -- JSON: what its governor knows [F2]
    reported       TEXT,                        -- JSON: runs since the governor last looked
    tokens         REAL,                        -- the governor's bucket; NULL: full
    tokens_at      REAL
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_queue_limited ON windlass_queue (name)
WHERE max_depth IS NOT NULL OR shed_depth IS NOT NULL OR shed_wait IS NOT NULL OR shed_latency IS NOT NULL;

-- A lane is one queue × priority; lane 0 is reserved and only hands out places. The counters are kept in this
-- row because every operation that moves jobs writes it anyway (for `seq` or `hi`): they cost nothing and
-- make depth O(lanes), where counting index entries would take tens of milliseconds per million waiting jobs.
CREATE TABLE windlass_lane (
    id        INTEGER PRIMARY KEY CHECK (id BETWEEN 0 AND 524287),
    queue     TEXT NOT NULL,
    priority  INTEGER NOT NULL,
    seq       INTEGER NOT NULL DEFAULT 0,   -- the last place given out
    hi        INTEGER NOT NULL DEFAULT 0,   -- the cursor: the last place claimed
    served    TEXT,                         -- the fair key served last [C3]
    ready     INTEGER NOT NULL DEFAULT 0 CHECK (ready >= 0),    -- waiting in the lane
    held      INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0),     -- ready, and waiting at a gate or in the ring
    running   INTEGER NOT NULL DEFAULT 0 CHECK (running >= 0),
    scheduled INTEGER NOT NULL DEFAULT 0 CHECK (scheduled >= 0),
    retrying  INTEGER NOT NULL DEFAULT 0 CHECK (retrying >= 0),
    dead      INTEGER NOT NULL DEFAULT 0 CHECK (dead >= 0),
    needs     TEXT NOT NULL DEFAULT '',     -- the abilities that its jobs need [K14]
    UNIQUE (queue, priority, needs)
) STRICT;
-- Who serves many queues finds the lanes with ready jobs here, and not by asking for each.
CREATE INDEX windlass_lane_ready ON windlass_lane (id) WHERE ready > 0;
INSERT INTO windlass_lane (id, queue, priority) VALUES (0, '', 0);

-- Settings of tasks; NULL means what the code says [P6].
CREATE TABLE windlass_task (
    name            TEXT PRIMARY KEY,
    batch           INTEGER,
    batch_timeout   REAL,
    parallel        INTEGER,
    chunk           INTEGER,
    concurrency     INTEGER,
    key_concurrency INTEGER
) STRICT, WITHOUT ROWID;

-- ── jobs ───────────────────────────────────────────────────────────────────────────────────────────────────

-- state: 2 offered (ready or running, by the cursor) · 3 the same, and more is to be done when it ends (it
-- holds a unique key, a checkpoint or a pass, is a part, others come after it, or its cancel is requested) ·
-- 4 succeeded · 5 dead · 6 cancelled · 7 scheduled · 8 retrying · 9 held · 10 a parent that waits for its
-- parts. None is 0 or 1, which SQLite stores in no bytes: a plain success must not change the size of its
-- row, since a row of the same size is overwritten in place.
-- touched_at: when it became ready; once it has ended, when it ended. One column, for the same reason.
-- run_at: a scheduled job without one waits for other jobs: it has edges in windlass_after.
-- cancel: the worker that must learn of the request to cancel; 0 once none must.
-- gate: a held job waits at this gate, or, where it is NULL, for its fair key. Waiting lists are in the order
-- of `pos`: a job that joins one takes a new place in lane 0.
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
    id          INTEGER,                    -- NULL: still at the place where it was inserted
    run_at      REAL,                       -- only while deferred
    cancel      INTEGER,
    fair_key    TEXT,
    reason      TEXT,
    errors      TEXT,                       -- JSON: the last 32 failures [O4]
    result      TEXT,
    gate        TEXT,
    need        INTEGER,                    -- the tokens that it waits for
    progress    TEXT                        -- JSON: what it had done when it ended [P6]: [done, total, at]
) STRICT;

-- None of these holds an entry for a plain job that is enqueued, claimed and succeeds.
CREATE INDEX windlass_job_moved ON windlass_job (id) WHERE id IS NOT NULL;
-- Jobs that have moved are listed by number, too [M3]: by their inserts, as the others are, a page would go
-- through every insert before it knew that none of its jobs has moved.
CREATE INDEX windlass_job_moved_number ON windlass_job (number) WHERE id IS NOT NULL;
CREATE INDEX windlass_job_due ON windlass_job (run_at, coalesce(id, pos)) WHERE run_at IS NOT NULL;
CREATE INDEX windlass_job_ring ON windlass_job (lane, fair_key) WHERE state = 9 AND gate IS NULL;
CREATE INDEX windlass_job_gate ON windlass_job (gate) WHERE state = 9 AND gate IS NOT NULL;
CREATE INDEX windlass_job_held_since ON windlass_job (lane, touched_at) WHERE state = 9;
CREATE INDEX windlass_job_ended ON windlass_job (lane, state, touched_at) WHERE state IN (5, 6);
CREATE INDEX windlass_job_aside ON windlass_job (state, number) WHERE state > 4;
CREATE INDEX windlass_job_cancel ON windlass_job (cancel) WHERE cancel > 0;
-- Dead jobs are counted by the type of their last failure [O4]: from this index alone, since failures are
-- most of what a dead row holds.
CREATE INDEX windlass_job_cause
ON windlass_job (state, number, lane, task, touched_at, errors ->> '$[#-1].type') WHERE state = 5;

-- Jobs number .. number + n - 1 were inserted with the ids lo .. lo + n - 1. One row per enqueue call (and
-- lane) does for listing newest first what an index on `number` would do at a third more work per enqueue.
CREATE TABLE windlass_insert (
    number INTEGER PRIMARY KEY,
    lo     INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    at     REAL NOT NULL
) STRICT;

CREATE TABLE windlass_unique (
    key   TEXT PRIMARY KEY,
    job   INTEGER NOT NULL,
    rerun TEXT                              -- JSON: the job to enqueue when this one has ended [E6]
) STRICT, WITHOUT ROWID;

-- How often the jobs of a unique key have died in a row [O7].
CREATE TABLE windlass_key_death (
    key    TEXT PRIMARY KEY,
    deaths INTEGER NOT NULL,
    last   REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_key_death_last ON windlass_key_death (last);

CREATE TABLE windlass_idempotency (
    key TEXT PRIMARY KEY,
    job INTEGER NOT NULL,
    at  REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_idempotency_at ON windlass_idempotency (at);

-- ── claims and workers ─────────────────────────────────────────────────────────────────────────────────────

-- A claim holds the jobs of a lane from place lo to place hi. AUTOINCREMENT: a fencing token is never used
-- twice.
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

-- Which attempts a flush ended, as ranges of seqs per claim: how a flush sent again is told from a new one
-- [C5].
CREATE TABLE windlass_flush (
    worker INTEGER NOT NULL,
    flush  INTEGER NOT NULL,
    claim  INTEGER NOT NULL,
    seqs   TEXT NOT NULL,                   -- JSON: [[lower, upper), …]
    PRIMARY KEY (worker, flush, claim)
) STRICT, WITHOUT ROWID;

CREATE TABLE windlass_checkpoint (
    job   INTEGER PRIMARY KEY,
    data  TEXT NOT NULL,
    done  INTEGER,
    total INTEGER,
    at    REAL NOT NULL
) STRICT;

-- The steps of jobs [W1]: only added to. until: when a sleep is over.
CREATE TABLE windlass_step (
    job     INTEGER NOT NULL,
    name    TEXT NOT NULL,
    at      REAL NOT NULL,
    until   REAL,
    attempt INTEGER NOT NULL,
    code    TEXT NOT NULL,
    result  TEXT NOT NULL,
    PRIMARY KEY (job, name)
) STRICT;

-- How far the walk over steps has come that looks for jobs which are gone.
CREATE TABLE windlass_step_look (
    single INTEGER PRIMARY KEY CHECK (single = 1),
    step   INTEGER NOT NULL                 -- its rowid
) STRICT;
INSERT INTO windlass_step_look VALUES (1, 0);

-- When jobs with `expires` have waited too long [E8]. The deadline itself is in their options, until somebody
-- has begun them. Rows of jobs that have ended in time stay until then.
CREATE TABLE windlass_expiry (
    job INTEGER PRIMARY KEY,
    at  REAL NOT NULL
) STRICT;
CREATE INDEX windlass_expiry_at ON windlass_expiry (at);

-- What jobs wait for, until they have it or its time is over: then it is a step [W2]. name: that of the step.
-- claim: the one under which the handler asked last. suspended: its job was put off for this, and waits for it
-- as long as it is scheduled. until: NULL is for ever. shape: the JSON schema of what it waits for.
CREATE TABLE windlass_wait (
    no        INTEGER PRIMARY KEY AUTOINCREMENT,
    job       INTEGER NOT NULL,
    name      TEXT NOT NULL,
    signal    TEXT NOT NULL,
    claim     INTEGER NOT NULL,
    suspended INTEGER NOT NULL DEFAULT 0,
    at        REAL NOT NULL,
    until     REAL,
    shape     TEXT,
    UNIQUE (job, name)
) STRICT;

-- Signals that no wait has taken yet, in the order in which they were sent.
CREATE TABLE windlass_signal (
    no    INTEGER PRIMARY KEY AUTOINCREMENT,
    job   INTEGER NOT NULL,
    name  TEXT NOT NULL,
    at    REAL NOT NULL,
    value TEXT NOT NULL
) STRICT;
CREATE INDEX windlass_signal_job ON windlass_signal (job, name, no);

-- How far the walk over waits and signals has come that looks for jobs which are gone.
CREATE TABLE windlass_signal_look (
    single INTEGER PRIMARY KEY CHECK (single = 1),
    job    INTEGER NOT NULL
) STRICT;
INSERT INTO windlass_signal_look VALUES (1, 0);

-- Addresses that may send one signal and have done so, until they would be of no use any more.
CREATE TABLE windlass_signal_once (
    token TEXT PRIMARY KEY,
    until REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_signal_once_until ON windlass_signal_once (until);

-- The streams of jobs [W3]: only added to, a row for all that one write brought of a job. position: of the
-- last of its n events. run: counts the claims under which the job emitted. Rows go in order, the oldest
-- first; the newest stays.
CREATE TABLE windlass_stream (
    job      INTEGER NOT NULL,
    position INTEGER NOT NULL,
    claim    INTEGER NOT NULL,
    at       REAL NOT NULL,
    n        INTEGER NOT NULL CHECK (n > 0),
    run      INTEGER NOT NULL,
    attempt  INTEGER NOT NULL,
    events   TEXT NOT NULL,                 -- JSON
    PRIMARY KEY (job, position)
) STRICT;

-- How far the walk over streams has come that looks for jobs which are gone.
CREATE TABLE windlass_stream_look (
    single INTEGER PRIMARY KEY CHECK (single = 1),
    job    INTEGER NOT NULL
) STRICT;
INSERT INTO windlass_stream_look VALUES (1, 0);

CREATE TABLE windlass_worker (
    id         INTEGER PRIMARY KEY,
    label      TEXT NOT NULL,
    host       TEXT NOT NULL,
    pid        INTEGER NOT NULL,
    queues     TEXT NOT NULL,               -- JSON
    tasks      TEXT NOT NULL,               -- JSON: the queue of each task that it knows
    machine    TEXT NOT NULL,
    boot       TEXT NOT NULL,
    lease      REAL NOT NULL,
    alive      INTEGER NOT NULL,
    heartbeat  INTEGER NOT NULL DEFAULT 0,
    started_at REAL NOT NULL,
    heartbeat_at REAL NOT NULL,
    abilities  TEXT NOT NULL DEFAULT '[]'   -- JSON: what it has that some jobs need [K14]
) STRICT;

-- ── jobs that come after others ────────────────────────────────────────────────────────────────────────────

-- The jobs of groups [W4], by the job that ends the group, in the order in which they were added. failed: it
-- has ended, and not succeeded, while the group waited: by that one that is gone is known from one that
-- succeeded and whose retention has passed.
CREATE TABLE windlass_group_job (
    group_end INTEGER NOT NULL,
    no        INTEGER NOT NULL,
    job       INTEGER NOT NULL,
    failed    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (group_end, no),
    UNIQUE (group_end, job)
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_group_job_failed ON windlass_group_job (job) WHERE failed;

-- How far the walk over groups has come that looks for ends which are gone.
CREATE TABLE windlass_group_look (
    single    INTEGER PRIMARY KEY CHECK (single = 1),
    group_end INTEGER NOT NULL
) STRICT;
INSERT INTO windlass_group_look VALUES (1, 0);

-- Edges: `job` waits for `awaited` [P12]. One that waits for itself ends a group that is open.
CREATE TABLE windlass_after (
    awaited INTEGER NOT NULL,
    job     INTEGER NOT NULL,
    run_at  REAL,                           -- before which it is not due, whatever they do
    PRIMARY KEY (awaited, job)
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_after_job ON windlass_after (job);

-- How awaited jobs have ended, until `promote` has seen to all who waited for them: a job may be awaited by
-- so many that its own end cannot do that.
CREATE TABLE windlass_awaited (
    job   INTEGER PRIMARY KEY,
    state INTEGER NOT NULL                  -- 4, 5 or 6
) STRICT;

-- ── parents and parts ──────────────────────────────────────────────────────────────────────────────────────

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
    parallel    INTEGER,                    -- NULL: any number
    tolerated   INTEGER NOT NULL,
    finalizer   INTEGER NOT NULL,           -- whether there is to be one
    final       INTEGER,                    -- its job, once it was offered
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
CREATE INDEX windlass_parent_pending ON windlass_parent (lane)
WHERE finished_at IS NULL AND NOT cancelling AND total > succeeded + dead + cancelled + out;
CREATE INDEX windlass_parent_ended ON windlass_parent (lane, state, finished_at)
WHERE finished_at IS NOT NULL;

-- state: 0 not yet offered · 1 out · 4, 5 and 6 as in windlass_job.
-- What a part has saved is in its job's checkpoint while it is out, and here before and afterwards.
CREATE TABLE windlass_part (
    parent  INTEGER NOT NULL,               -- the id of its parent
    number  INTEGER NOT NULL,               -- its index, from 0
    state   INTEGER NOT NULL,
    size    INTEGER NOT NULL,
    span    TEXT NOT NULL,
    job     INTEGER,                        -- the job that runs it, or ran it last
    attempt INTEGER NOT NULL DEFAULT 0,     -- of that job, when it ended
    claimed INTEGER NOT NULL DEFAULT 0,     -- whether that job was, since it was offered
    done    INTEGER NOT NULL DEFAULT 0,
    records INTEGER NOT NULL DEFAULT 0,
    error   TEXT,
    data    TEXT,                           -- the checkpoint it ended with, if not well
    goal    INTEGER,                        -- its total
    at      REAL,
    earlier INTEGER,                        -- the job whose steps the next one takes over
    PRIMARY KEY (parent, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_part_earlier ON windlass_part (earlier) WHERE earlier IS NOT NULL;
CREATE INDEX windlass_part_open ON windlass_part (parent, state, number) WHERE state <> 4;
CREATE INDEX windlass_part_waiting ON windlass_part (parent, job) WHERE state = 1 AND claimed = 0;


-- ── gates ──────────────────────────────────────────────────────────────────────────────────────────────────

-- Who is beyond a gate [F3]. At the gate of a budget `n` counts the tokens that are reserved for the job,
-- which are none while it waits at another gate; at any other it is 1. The jobs of a run of a key take one
-- place together: how many places are taken says `places` in sql/rows.sql, and nobody else counts.
CREATE TABLE windlass_pass (
    job   INTEGER NOT NULL,
    gate  TEXT NOT NULL,
    n     INTEGER NOT NULL,
    need  INTEGER,                          -- of a budget: the tokens that its claim will take,
    at    REAL,                             -- and when they were reserved, which lasts for a while only
    place INTEGER,                          -- of a budget or a run: its place on the waiting list, for when
                                            -- it comes back
    run   INTEGER,                          -- of a run: the position in its lane of the first of them
    PRIMARY KEY (job, gate)
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_pass_gate ON windlass_pass (gate, at, n, run);

-- Where promotion continues its walk over the waiting lists.
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

-- ── budgets ────────────────────────────────────────────────────────────────────────────────────────────────

-- Budgets [F1] and what their breakers have seen [F7].
CREATE TABLE windlass_budget (
    name          TEXT PRIMARY KEY,
    rate          REAL NOT NULL,
    burst         INTEGER NOT NULL,
    key           TEXT,
    cap           INTEGER,
    cap_per       TEXT NOT NULL,
    cap_zone      TEXT NOT NULL,
    breaker       INTEGER NOT NULL,
    breaker_pause REAL NOT NULL,
    failures      INTEGER NOT NULL DEFAULT 0,
    openings      INTEGER NOT NULL DEFAULT 0,
    until         REAL NOT NULL DEFAULT 0,
    probing       INTEGER NOT NULL DEFAULT 0,
    drained_until REAL NOT NULL DEFAULT 0,  -- all of its buckets were drained till then, those to come too,
    drained_at    REAL NOT NULL DEFAULT 0   -- and when that was said
) STRICT, WITHOUT ROWID;

-- A bucket without a row is as full as a new one.
CREATE TABLE windlass_bucket (
    budget        TEXT NOT NULL,
    key           TEXT NOT NULL,
    tokens        REAL NOT NULL,
    at            REAL NOT NULL,
    paused_until  REAL NOT NULL,
    leased_until  REAL NOT NULL,            -- blocks of its tokens are out until then
    whole_until   REAL NOT NULL,            -- no more of them before this: somebody needs more than is left
    used          REAL NOT NULL DEFAULT 0,  -- in the period of its cap, which ends then
    used_until    REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (budget, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_bucket_at ON windlass_bucket (at);

-- What attempts have said last that they really used, kept for an hour: so that it counts once when it is sent
-- again.
CREATE TABLE windlass_spent (
    lane   INTEGER NOT NULL,
    claim  INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    budget TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    at     REAL NOT NULL,
    PRIMARY KEY (lane, claim, seq, budget)
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_spent_at ON windlass_spent (at);

-- ── the cluster and schedules ──────────────────────────────────────────────────────────────────────────────

-- The present term, or the last one [K3]. Its number only grows: that is what a late write is refused by.
CREATE TABLE windlass_term (
    only   INTEGER PRIMARY KEY CHECK (only = 1),
    number INTEGER NOT NULL,
    holder INTEGER,                         -- NULL: given up
    until  REAL NOT NULL
) STRICT;
INSERT INTO windlass_term (only, number, until) VALUES (1, 0, 0);

-- How often hosts were called to ask what has changed: the cancel of a running job was requested, a queue's
-- settings changed, slots given.
CREATE TABLE windlass_host_calls (
    only  INTEGER PRIMARY KEY CHECK (only = 1),
    times INTEGER NOT NULL
) STRICT;
INSERT INTO windlass_host_calls (only, times) VALUES (1, 0);

-- The slots that the coordinator gave to each worker [K1].
CREATE TABLE windlass_slot (
    worker INTEGER NOT NULL,
    queue  TEXT NOT NULL,
    slots  INTEGER NOT NULL CHECK (slots >= 0),
    PRIMARY KEY (worker, queue)
) STRICT, WITHOUT ROWID;

-- When a chore that any process may do was last done.
CREATE TABLE windlass_chore (
    name TEXT PRIMARY KEY,
    at   REAL NOT NULL
) STRICT, WITHOUT ROWID;

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
    error      TEXT,
    live       INTEGER NOT NULL DEFAULT 0,  -- made or changed at run time
    declared   TEXT,                        -- JSON: the NewSchedule of the code
    declared_at REAL
) STRICT, WITHOUT ROWID;
CREATE INDEX windlass_schedule_due ON windlass_schedule (next_at) WHERE NOT paused AND next_at IS NOT NULL;
CREATE INDEX windlass_schedule_last ON windlass_schedule (last_at) WHERE NOT paused;

-- ── measures: none of it is written where a job is enqueued, claimed or finished ───────────────────────────

-- Who reports: a worker, or any other process. `number` is that of its last report: what is not higher was
-- reported before.
CREATE TABLE windlass_reporter (
    source    INTEGER PRIMARY KEY,
    number    INTEGER NOT NULL,
    at        REAL NOT NULL,
    vitals    TEXT,                         -- JSON: how it was doing when it last reported [M3]
    vitals_at REAL
) STRICT;
CREATE INDEX windlass_reporter_at ON windlass_reporter (at);

-- What was reported and not yet rolled up.
CREATE TABLE windlass_report (
    id      INTEGER PRIMARY KEY,
    samples TEXT                            -- JSON
) STRICT;

-- The rows of charts [M1]: span 60 a minute, 3600 an hour, 0 all time. Of everything, where queue and task
-- are ''. Not WITHOUT ROWID: such a row may fill a quarter of a page, and what is longer takes a page of its
-- own.
CREATE TABLE windlass_rollup (
    span   INTEGER NOT NULL,
    queue  TEXT NOT NULL,
    task   TEXT NOT NULL,
    at     INTEGER NOT NULL,
    sample BLOB NOT NULL,                   -- packed: see store/measures.py
    UNIQUE (span, queue, task, at)
) STRICT;
CREATE INDEX windlass_rollup_at ON windlass_rollup (span, at);

-- How many jobs have ended, and how, by queue and task [M7]: counted in the transaction that ends them.
CREATE TABLE windlass_ended (
    queue TEXT NOT NULL,
    task  TEXT NOT NULL,
    state INTEGER NOT NULL,                 -- 4, 5 or 6
    n     INTEGER NOT NULL,
    PRIMARY KEY (queue, task, state)
) STRICT, WITHOUT ROWID;

-- Timelines [M2]. AUTOINCREMENT: later events have higher numbers, also once all others have gone.
CREATE TABLE windlass_event (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      REAL NOT NULL,
    kind    TEXT NOT NULL,
    text    TEXT NOT NULL,
    job     INTEGER,
    queue   TEXT NOT NULL,
    task    TEXT NOT NULL,
    worker  TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    ms      REAL
) STRICT;
CREATE INDEX windlass_event_job ON windlass_event (job) WHERE job IS NOT NULL;
CREATE INDEX windlass_event_queue ON windlass_event (queue);
