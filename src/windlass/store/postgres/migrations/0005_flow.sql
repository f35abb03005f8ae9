-- Budgets, the governor, what a queue may be loaded with, and schedules. Small mutable tables, off the hot path; those that
-- are written often leave room in their pages, and no column that changes is indexed, so that updates stay HOT. Their times
-- are seconds since the epoch, as the decisions in windlass.core count them.

ALTER TABLE windlass.queue
    ADD COLUMN governor     boolean NOT NULL DEFAULT false,
    ADD COLUMN rate_min     float8 NOT NULL DEFAULT 1,
    ADD COLUMN rate_max     float8 NOT NULL DEFAULT 1000,
    ADD COLUMN max_depth    bigint,
    ADD COLUMN shed_depth   bigint,
    ADD COLUMN shed_wait    float8,
    ADD COLUMN shed_latency float8,
    ADD COLUMN refused      bigint NOT NULL DEFAULT 0,
    ADD COLUMN shed         bigint NOT NULL DEFAULT 0,
    ADD COLUMN pressure     text NOT NULL DEFAULT 'none' CHECK (pressure IN ('none', 'soft', 'full'));
ALTER TABLE windlass.queue SET (fillfactor = 50);

-- A budget with its breaker [F1] [F7]: failures in a row, openings since it was last closed, and until when it is open or
-- has its probe out. drains and drained_until tell of drains of all its buckets, which each takes in when it is next used.
-- The budget `queue:<queue>` is that of a queue's governor.
CREATE TABLE windlass.budget (
    name          text PRIMARY KEY CHECK (name ~ '^(queue:)?[a-z0-9_.-]{1,64}$'),
    rate          float8 NOT NULL CHECK (rate >= 0),
    burst         float8 NOT NULL CHECK (burst >= 1),
    breaker_pause float8 NOT NULL DEFAULT 30 CHECK (breaker_pause > 0),
    until         float8 NOT NULL DEFAULT 0,
    drained_until float8 NOT NULL DEFAULT 0,
    breaker       bigint NOT NULL DEFAULT 0 CHECK (breaker >= 0),
    failures      bigint NOT NULL DEFAULT 0,
    openings      int NOT NULL DEFAULT 0,
    drains        int NOT NULL DEFAULT 0,
    probing       boolean NOT NULL DEFAULT false,
    key           text
) WITH (fillfactor = 50);

-- The buckets of budgets, by key. One that has no row is full, but for drains.
CREATE TABLE windlass.bucket (
    tokens        float8 NOT NULL,
    at            float8 NOT NULL,
    blocked_until float8 NOT NULL DEFAULT 0,
    drains        int NOT NULL DEFAULT 0,
    budget        text NOT NULL,
    key           text COLLATE "C" NOT NULL,
    PRIMARY KEY (budget, key)
) WITH (fillfactor = 50);

-- What was reported of a governed queue since the governor's last look, and what the governor knows [F2].
CREATE TABLE windlass.governor (
    queue     text PRIMARY KEY,
    succeeded bigint NOT NULL DEFAULT 0,
    failed    bigint NOT NULL DEFAULT 0,
    throttled bigint NOT NULL DEFAULT 0,
    times     jsonb NOT NULL DEFAULT '{}',
    state     jsonb
) WITH (fillfactor = 50);

-- How long the store took to answer, as the coordinator saw it last [F5].
CREATE TABLE windlass.observed (
    single  boolean PRIMARY KEY DEFAULT true CHECK (single),
    latency float8 NOT NULL DEFAULT 0,
    at      float8 NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO windlass.observed DEFAULT VALUES;

-- Schedules [K4]. next_at NULL: never due, and error says why.
CREATE TABLE windlass.schedule (
    name     text PRIMARY KEY,
    next_at  float8,
    last_at  float8,
    last_job bigint,
    skipped  bigint NOT NULL DEFAULT 0,
    grace    float8 NOT NULL,
    jitter   float8 NOT NULL,
    priority smallint NOT NULL CHECK (priority BETWEEN 0 AND 3),
    paused   boolean NOT NULL DEFAULT false,
    cron     text NOT NULL,
    tz       text NOT NULL,
    task     text NOT NULL,
    queue    text NOT NULL,
    missed   text NOT NULL CHECK (missed IN ('skip', 'latest', 'all')),
    overlap  text NOT NULL CHECK (overlap IN ('skip', 'queue', 'cancel')),
    error    text,
    payload  json NOT NULL,
    options  json
) WITH (fillfactor = 50);

-- The job that waits longest aside, without a look at the others [F5].
CREATE INDEX ON windlass.held (queue, since);
