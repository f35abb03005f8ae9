-- Parents and their parts, jobs that come after others, deaths of unique keys, settings of tasks, and turns. All of
-- them mutable tables, off the hot path.

ALTER TABLE windlass.meta ADD COLUMN park_after int NOT NULL DEFAULT 3;

-- A job from its split on, also after its end, until expire removes it [P4] [P9]. The counters are those of its parts
-- by state; `pending` have not been released, or wait for their redrive. done and records are those of parts that have
-- succeeded: what the others have saved is in their checkpoints. final_state: NULL, out, or how the finalizer ended.
CREATE TABLE windlass.parent (
    id          bigint PRIMARY KEY,
    claim       bigint NOT NULL,
    enqueued_at timestamptz NOT NULL,
    created_at  timestamptz NOT NULL,
    finished_at timestamptz,
    final       bigint,
    size        bigint NOT NULL,
    done        bigint NOT NULL DEFAULT 0,
    records     bigint NOT NULL DEFAULT 0,
    total       int NOT NULL,
    pending     int NOT NULL CHECK (pending >= 0),
    out         int NOT NULL DEFAULT 0 CHECK (out >= 0),
    succeeded   int NOT NULL DEFAULT 0 CHECK (succeeded >= 0),
    dead        int NOT NULL DEFAULT 0 CHECK (dead >= 0),
    cancelled   int NOT NULL DEFAULT 0 CHECK (cancelled >= 0),
    parallel    int NOT NULL CHECK (parallel > 0),
    tolerated   int NOT NULL,
    priority    smallint NOT NULL,
    attempt     smallint NOT NULL,
    deaths      smallint NOT NULL,
    finalizer   boolean NOT NULL,
    cancelling  boolean NOT NULL DEFAULT false,
    state       text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'succeeded', 'dead', 'cancelled')),
    final_state text,
    queue       text NOT NULL,
    task        text NOT NULL,
    payload     json NOT NULL,
    options     json,
    snapshot    pg_snapshot,
    reason      text,
    result      json,
    CHECK (pending + out + succeeded + dead + cancelled = total)
) WITH (fillfactor = 50);
CREATE INDEX ON windlass.parent (created_at, id);
CREATE INDEX ON windlass.parent (created_at, id) WHERE state = 'waiting';
CREATE INDEX ON windlass.parent (queue, finished_at) WHERE state <> 'waiting';

-- A part: what it covers and the job that runs it, or ran it last. state: pending, out, succeeded, dead, cancelled.
-- -1 is the finalizer, once it was released. attempt, records and error are those it ended with.
CREATE TABLE windlass.part (
    parent  bigint NOT NULL,
    size    bigint NOT NULL,
    job     bigint,
    records bigint NOT NULL DEFAULT 0,
    index   int NOT NULL,
    attempt smallint NOT NULL DEFAULT 0,
    state   text NOT NULL DEFAULT 'pending',
    span    json NOT NULL,
    error   text,
    PRIMARY KEY (parent, index)
);
CREATE INDEX ON windlass.part (job);
CREATE INDEX ON windlass.part (parent, index) WHERE state = 'pending';
CREATE INDEX ON windlass.part (parent, index) WHERE state <> 'succeeded' AND job IS NOT NULL;
CREATE INDEX ON windlass.part (job) WHERE state = 'out';

-- Parents that are gone, some of whose parts are not yet: expire removes these step by step.
CREATE TABLE windlass.dropped_parent (
    id bigint PRIMARY KEY
);

-- How the jobs of parts ended, until advance has folded it into their parents. Only added to by those who end jobs, so
-- that no two of them wait for each other.
CREATE SEQUENCE windlass.part_event_no MINVALUE 1 NO CYCLE CACHE 1;
CREATE TABLE windlass.part_event (
    parent  bigint NOT NULL,
    no      bigint NOT NULL DEFAULT nextval('windlass.part_event_no'),
    job     bigint NOT NULL,
    records bigint NOT NULL,
    index   int NOT NULL,
    attempt smallint NOT NULL,
    kind    text NOT NULL,
    error   text,
    PRIMARY KEY (parent, no)
);

-- Jobs that come after others [P12]: they stand in deferred with an infinite run_at until the last edge is gone, and may
-- run from not_before on. follow walks the edges in turn; the one row says how far it has come. ended: how the other one had
-- failed already when the edge was made.
ALTER TABLE windlass.deferred ADD COLUMN not_before timestamptz;
CREATE TABLE windlass.after_edge (
    job    bigint NOT NULL,
    on_job bigint NOT NULL,
    ended  text,
    PRIMARY KEY (job, on_job)
);
CREATE TABLE windlass.after_look (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    job    bigint NOT NULL DEFAULT 0,
    on_job bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO windlass.after_look DEFAULT VALUES;

-- Jobs that did not succeed, and how they ended, for a week: what the logs have forgotten and is not noted here has
-- succeeded. Only added to by those who end jobs, so that none of them waits for a producer or for follow.
CREATE TABLE windlass.ended_otherwise (
    job  bigint PRIMARY KEY,
    at   timestamptz NOT NULL,
    kind text NOT NULL
);
CREATE INDEX ON windlass.ended_otherwise (at);

-- How many jobs of a unique key have died in a row, and when the last one did [O7].
CREATE TABLE windlass.key_death (
    key    text PRIMARY KEY,
    at     timestamptz NOT NULL,
    deaths int NOT NULL
);
CREATE INDEX ON windlass.key_death (at);

-- Settings of tasks; NULL means what the code says [P6].
CREATE TABLE windlass.task_setting (
    name          text PRIMARY KEY CHECK (name ~ '^[a-z0-9_.-]{1,64}$'),
    batch         bigint CHECK (batch > 0),
    batch_timeout float8 CHECK (batch_timeout > 0),
    parallel      bigint CHECK (parallel > 0)
);

CREATE TABLE windlass.turn_taken (
    name text PRIMARY KEY,
    at   timestamptz NOT NULL
);

-- Their successors take more arguments, which have defaults, or answer with more: calls as before mean the same.
DROP FUNCTION IF EXISTS windlass.enqueue(
    text, json, text, text, interval, timestamptz, int, interval, text, text, text, text, text[], json, text);
DROP FUNCTION IF EXISTS windlass.enqueue_one(text, text, text, smallint, float8, timestamptz, text, text, text);
DROP FUNCTION IF EXISTS windlass.settle(bigint[], int[], bigint[]);
DROP FUNCTION IF EXISTS windlass.stamp(int, text, float8, float8, bigint);
DROP FUNCTION IF EXISTS windlass.expire(int);

-- The worker and the claim by which it was made, while that attempt lasts: what a later checkpoint of the same attempt is
-- known by.
ALTER TABLE windlass.checkpoint ADD COLUMN claim bigint;
ALTER TABLE windlass.checkpoint ADD COLUMN worker bigint;
ALTER TABLE windlass.checkpoint SET (fillfactor = 50);
