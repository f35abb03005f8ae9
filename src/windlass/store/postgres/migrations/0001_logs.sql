-- The three logs, their satellites, and the small mutable tables off the hot path.
-- Autovacuum is off on log partitions: nothing in them is ever updated, and TRUNCATE gives the room back.

CREATE SCHEMA IF NOT EXISTS windlass;

-- One row: what this schema is, where it was made, and the settings SQL needs to know.
CREATE TABLE windlass.meta (
    single                  boolean PRIMARY KEY DEFAULT true CHECK (single),
    version               int NOT NULL DEFAULT 0,
    functions             text NOT NULL DEFAULT '',
    system_identifier     bigint,
    database              oid,
    idempotency_retention float8 NOT NULL DEFAULT 86400,
    retention             float8 NOT NULL DEFAULT 604800,
    size_limit            bigint NOT NULL DEFAULT 10737418240
);
INSERT INTO windlass.meta DEFAULT VALUES;

CREATE TABLE windlass.queue (
    name           text PRIMARY KEY CHECK (name ~ '^[a-z0-9_.-]{1,64}$'),
    paused         boolean NOT NULL DEFAULT false,
    max_workers    int,
    retention      float8,
    dead_retention float8 NOT NULL DEFAULT 2592000,
    lane_window    int NOT NULL DEFAULT 100 CHECK (lane_window > 0),
    shards         smallint NOT NULL DEFAULT 1 CHECK (shards BETWEEN 1 AND 64)
);

-- A lane is one queue x priority x shard. Its number is never used again; lane 0 is reserved.
CREATE SEQUENCE windlass.lane_id MINVALUE 1 MAXVALUE 524287 NO CYCLE CACHE 1;
CREATE TABLE windlass.lane (
    id       int PRIMARY KEY CHECK (id BETWEEN 1 AND 524287),
    queue    text NOT NULL REFERENCES windlass.queue (name),
    priority smallint NOT NULL CHECK (priority BETWEEN 0 AND 3),
    shard    smallint NOT NULL DEFAULT 0,
    position regclass NOT NULL,
    idle     regclass NOT NULL,
    UNIQUE (queue, priority, shard)
);

-- Numbers that must not obey transactions, so they live in sequences.
CREATE SEQUENCE windlass.job_id MINVALUE 1 MAXVALUE 17592186044415 NO CYCLE CACHE 1;
CREATE SEQUENCE windlass.claim_id MINVALUE 1 NO CYCLE CACHE 1;
CREATE SEQUENCE windlass.seq_set_id MINVALUE 1 NO CYCLE CACHE 1;
CREATE SEQUENCE windlass.segment_current MINVALUE 0 MAXVALUE 7 START 0 CACHE 1;
CREATE SEQUENCE windlass.horizon MINVALUE 0 START 0 CACHE 1;
CREATE SEQUENCE windlass.awaited MINVALUE 0 MAXVALUE 1 START 0 CACHE 1;
SELECT setval('windlass.segment_current', 0, true), setval('windlass.horizon', 0, true),
       setval('windlass.awaited', 0, true);

-- The ready log: one row per attempt offered. id is NULL where the position itself is the id, enqueued_at where
-- that was when it was offered.
CREATE TABLE windlass.ready (
    seq         bigint NOT NULL,
    offered_at  timestamptz NOT NULL,
    id          bigint,
    enqueued_at timestamptz,
    lane        int NOT NULL,
    segment     smallint NOT NULL,
    attempt     smallint NOT NULL DEFAULT 1,
    deaths      smallint NOT NULL DEFAULT 0,
    task        text NOT NULL,
    payload     json NOT NULL,
    options     json
) PARTITION BY LIST (segment);

-- The claim log: one row per batch claimed. The newest row of a lane is its cursor.
CREATE TABLE windlass.claim (
    id            bigint NOT NULL,
    worker        bigint NOT NULL,
    hi            bigint NOT NULL,
    claimed_at    timestamptz NOT NULL,
    probed_at     timestamptz NOT NULL,
    holes         bigint NOT NULL DEFAULT 0,
    ahead_n       bigint NOT NULL DEFAULT 0,
    lane          int NOT NULL,
    n             int NOT NULL,
    segment       smallint NOT NULL,
    late          boolean NOT NULL DEFAULT false,
    seqs          int8multirange NOT NULL,
    young         int8multirange,
    old           int8multirange,
    old_horizon   bigint,
    spilled       bigint[],
    ahead         int8multirange,
    ahead_spilled bigint[],
    snapshot      pg_snapshot
) PARTITION BY LIST (segment);

-- The outcome log: one row per flush, claim and kind. It lives in its claim's segment.
CREATE TABLE windlass.outcome (
    claim     bigint NOT NULL,
    flush     bigint NOT NULL,
    at        timestamptz NOT NULL,
    lane      int NOT NULL,
    n         int NOT NULL,
    segment   smallint NOT NULL,
    kind      text NOT NULL,
    seqs      int8multirange NOT NULL,
    histogram int[]
) PARTITION BY LIST (segment);

CREATE TABLE windlass.failure (
    job       bigint NOT NULL,
    at        timestamptz NOT NULL,
    segment   smallint NOT NULL,
    attempt   smallint NOT NULL,
    type      text NOT NULL,
    message   text NOT NULL,
    traceback text NOT NULL
) PARTITION BY LIST (segment);

CREATE TABLE windlass.result (
    job     bigint NOT NULL,
    at      timestamptz NOT NULL,
    segment smallint NOT NULL,
    result  json NOT NULL
) PARTITION BY LIST (segment);

DO $$
DECLARE
    log text;
    no  int;
BEGIN
    FOR no IN 0..7 LOOP
        FOREACH log IN ARRAY ARRAY['ready', 'claim', 'outcome', 'failure', 'result'] LOOP
            EXECUTE format(
                'CREATE TABLE windlass.%I PARTITION OF windlass.%I FOR VALUES IN (%s) '
                'WITH (autovacuum_enabled = false%s)',
                log || '_' || no, log, no,
                CASE WHEN log IN ('ready', 'failure', 'result') THEN ', toast.autovacuum_enabled = false' ELSE '' END);
        END LOOP;
        EXECUTE format('CREATE UNIQUE INDEX ON windlass.%I (lane, seq)', 'ready_' || no);
        EXECUTE format('CREATE INDEX ON windlass.%I (id) WHERE id IS NOT NULL', 'ready_' || no);
        EXECUTE format('CREATE UNIQUE INDEX ON windlass.%I (lane, id)', 'claim_' || no);
        EXECUTE format('CREATE INDEX ON windlass.%I (lane, hi, id)', 'claim_' || no);
        EXECUTE format('CREATE INDEX ON windlass.%I (worker, id) WHERE n > 0 AND worker <> 0', 'claim_' || no);
        EXECUTE format('CREATE INDEX ON windlass.%I (lane, id) WHERE late', 'claim_' || no);
        EXECUTE format('CREATE UNIQUE INDEX ON windlass.%I (claim, flush, kind)', 'outcome_' || no);
        EXECUTE format('CREATE INDEX ON windlass.%I (job)', 'failure_' || no);
        EXECUTE format('CREATE INDEX ON windlass.%I (job)', 'result_' || no);
    END LOOP;
END $$;

-- The segments, and the one rotation that may be under way.
CREATE TABLE windlass.segment (
    no        smallint PRIMARY KEY,
    opened_at timestamptz,
    closed_at timestamptz,
    empty     boolean NOT NULL DEFAULT true
);
INSERT INTO windlass.segment (no) SELECT generate_series(0, 7);
CREATE TABLE windlass.rotation (
    single          boolean PRIMARY KEY DEFAULT true CHECK (single),
    victim        smallint,
    turn          bigint NOT NULL DEFAULT 0,
    judged        boolean NOT NULL DEFAULT false,
    judged_lane   int NOT NULL DEFAULT 0,
    judged_id     bigint NOT NULL DEFAULT 0,
    carried_at    timestamptz,
    carry_lanes   int[] NOT NULL DEFAULT '{}',
    carry         bigint[] NOT NULL DEFAULT '{}',
    blocked       text,
    blocked_since timestamptz
);
INSERT INTO windlass.rotation DEFAULT VALUES;

-- Holes and takings ahead that are too many to repeat in every claim row: written once, then named by id.
CREATE TABLE windlass.seq_set (
    id      bigint PRIMARY KEY,
    lane    int NOT NULL,
    horizon bigint NOT NULL,
    ranges  int NOT NULL,
    n       bigint NOT NULL,
    seqs    int8multirange NOT NULL
);

-- Workers. The life row is what every write of a worker is fenced by, so it is apart from the beats. `flushed` is
-- the highest flush number whose outcomes were reclaimed; one up to it that names a lost claim was sent before.
CREATE TABLE windlass.worker (
    id         bigint PRIMARY KEY,
    label      text NOT NULL,
    host       text NOT NULL,
    pid        int NOT NULL,
    queues     text[] NOT NULL,
    started_at timestamptz NOT NULL,
    flushed    bigint NOT NULL DEFAULT 0
);
CREATE TABLE windlass.worker_life (
    id      bigint PRIMARY KEY,
    alive   boolean NOT NULL DEFAULT true,
    settled boolean NOT NULL DEFAULT false
);
CREATE TABLE windlass.worker_beat (
    id    bigint PRIMARY KEY,
    beat  bigint NOT NULL DEFAULT 0,
    at    timestamptz NOT NULL,
    floor bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE TABLE windlass.cancel_request (
    job bigint PRIMARY KEY,
    at  timestamptz NOT NULL
);

-- Jobs that are not in a lane: scheduled or retrying, held aside by key, dead.
CREATE TABLE windlass.deferred (
    id          bigint PRIMARY KEY,
    run_at      timestamptz NOT NULL,
    xid         xid8 NOT NULL DEFAULT pg_current_xact_id(),
    enqueued_at timestamptz NOT NULL,
    replaces    bigint,
    priority    smallint NOT NULL,
    attempt     smallint NOT NULL DEFAULT 1,
    deaths      smallint NOT NULL DEFAULT 0,
    retrying    boolean NOT NULL DEFAULT false,
    queue       text NOT NULL,
    task        text NOT NULL,
    payload     json NOT NULL,
    options     json
);
CREATE INDEX ON windlass.deferred (run_at, id);
CREATE INDEX ON windlass.deferred (xid);
CREATE INDEX ON windlass.deferred (replaces) WHERE replaces IS NOT NULL;
CREATE INDEX ON windlass.deferred (queue, retrying);
CREATE TABLE windlass.deferred_watermark (
    single     boolean PRIMARY KEY DEFAULT true CHECK (single),
    run_at   timestamptz NOT NULL DEFAULT '-infinity',
    snapshot pg_snapshot
) WITH (fillfactor = 50);
INSERT INTO windlass.deferred_watermark DEFAULT VALUES;

-- Held jobs wait for their turn; `since` is when each became ready.
CREATE SEQUENCE windlass.held_turn MINVALUE 1 NO CYCLE CACHE 1;
CREATE TABLE windlass.held (
    id          bigint PRIMARY KEY,
    turn        bigint NOT NULL DEFAULT nextval('windlass.held_turn'),
    since       timestamptz NOT NULL,
    enqueued_at timestamptz NOT NULL,
    priority    smallint NOT NULL,
    attempt     smallint NOT NULL DEFAULT 1,
    deaths      smallint NOT NULL DEFAULT 0,
    queue       text NOT NULL,
    fair_key    text COLLATE "C" NOT NULL,
    task        text NOT NULL,
    payload     json NOT NULL,
    options     json
);
CREATE INDEX ON windlass.held (queue, priority, fair_key, turn);
CREATE TABLE windlass.ring (
    queue    text NOT NULL,
    priority smallint NOT NULL,
    key      text COLLATE "C" NOT NULL,
    PRIMARY KEY (queue, priority)
) WITH (fillfactor = 50);

CREATE TABLE windlass.dead (
    id          bigint PRIMARY KEY,
    enqueued_at timestamptz NOT NULL,
    died_at     timestamptz NOT NULL,
    priority    smallint NOT NULL,
    attempt     smallint NOT NULL,
    deaths      smallint NOT NULL,
    queue       text NOT NULL,
    task        text NOT NULL,
    reason      text NOT NULL,
    payload     json NOT NULL,
    options     json,
    errors      json NOT NULL DEFAULT '[]'
);
CREATE INDEX ON windlass.dead (queue, died_at);

-- Keys. touched and rerun remember an enqueue that met a twin; see settle.
CREATE TABLE windlass.unique_key (
    key     text PRIMARY KEY,
    job     bigint NOT NULL,
    touched xid8,
    rerun   json
);
CREATE INDEX ON windlass.unique_key (job);
-- Keys that could not be freed with their job, because a producer's transaction held them: see settle.
CREATE TABLE windlass.unsettled (
    job      bigint PRIMARY KEY,
    snapshot pg_snapshot
);
CREATE TABLE windlass.idempotency (
    key text PRIMARY KEY,
    job bigint NOT NULL,
    at  timestamptz NOT NULL
);
CREATE INDEX ON windlass.idempotency (at);

CREATE TABLE windlass.checkpoint (
    job   bigint PRIMARY KEY,
    at    timestamptz NOT NULL,
    done  bigint,
    total bigint,
    data  json NOT NULL
);

-- Who was given which rights by allow, so that an upgrade gives them the new functions, too.
CREATE TABLE windlass.allowed (
    role text NOT NULL,
    kind text NOT NULL,
    PRIMARY KEY (role, kind)
);
