-- The schema: tables, sequences, indexes. The functions are in sql/, one file a module, and are replaced as a
-- whole whenever their text has changed. In here, in this order:
--   settings    meta, allowed, queue, task_setting
--   lanes       lane, and numbers that obey no transaction
--   logs        ready, claim, outcome, failure, result; segment, rotation, seq_set
--   workers     worker, worker_life, worker_heartbeat, checkpoint, step, cancel_request; leader, slot, chore
--   streams     stream, stream_watch, stream_look
--   signals     wait, signal, signal_note, signal_look, signal_once
--   deferred    deferred and its watermark, expiry, after_edge, after_due, ended_otherwise, dead
--   groups      group_job, group_look
--   keys        unique_key, unsettled, key_death, idempotency
--   limits      held, ring, pass, and what is known of gates; open_claim, limited_queue, uncounted_task
--   budgets     budget, bucket, governor, observed
--   parents     parent, part, part_event
--   schedules   schedule
--   measures    report, reporter, measured, event
--   counts      ended_count, counted_lane, ended_aside
--   adoption    epoch_mark
--
-- Only the logs are on the path of every job, and nothing in them is ever updated. The other tables are small
-- and mutable. Those that are written often leave room in their pages (fillfactor), and no column of theirs
-- that changes is indexed, so that updates stay HOT.
--
-- Roles. The owner migrates. windlass.allow makes another role a worker, a producer or a reader. Workers and
-- readers may read every table; nobody but the owner may write one. All writing is done by functions that run
-- as the owner, and the header of each says who may call it.
--
-- Lock order. Whoever takes several locks takes them from the top down. What stands further up than something
-- already held is tried, never waited for.
--   1. the rotation row                 rotation, adoption; then the count of ends (advisory), see count_lock
--   2. the leader row, FOR SHARE        what a coordinator writes under its term
--   3. a parent's row                   split, advance, cancel, redrive
--   4. gates (advisory)                 in the order in which jobs pass them, then by name
--   5. a limited queue (advisory)       a claim that must count what runs
--   6. lanes (advisory)                 by id: claims, rotation, whatever takes a waiting job back
--   7. a worker's life row              every write of a worker, claims included; rescue only tries it
--   8. the keys of an enqueue           sorted; whoever ends a job only tries them
--   9. ready, ROW EXCLUSIVE             and its current partition, before numbers are drawn: who offers jobs
--  10. buckets                          by budget and key
-- Whoever looks for a claim takes ACCESS SHARE on claim first, so that its snapshot is younger than any
-- rotation that moved the claim. Rotation locks partitions NOWAIT and lets go at once where it cannot have
-- them.

CREATE SCHEMA IF NOT EXISTS windlass;

-- ==== Settings ====

-- One row: what this schema is (origin: of which first migration), where it was made, and the settings SQL
-- needs to know. ids_from: where the ids of jobs outside of lanes go on after a loss, see skip_ids.
CREATE TABLE windlass.meta (
    single                boolean PRIMARY KEY DEFAULT true CHECK (single),
    version               int NOT NULL DEFAULT 0,
    functions             text NOT NULL DEFAULT '',
    origin                text,
    system_identifier     bigint,
    database              oid,
    idempotency_retention float8 NOT NULL DEFAULT 86400,
    retention             float8 NOT NULL DEFAULT 604800,
    size_limit            bigint NOT NULL DEFAULT 10737418240,
    park_after            int NOT NULL DEFAULT 3,
    epoch                 bigint NOT NULL DEFAULT 1,
    ids_from              bigint NOT NULL DEFAULT 1 << 29,
    timeline              int
);
INSERT INTO windlass.meta DEFAULT VALUES;

-- Who was given which rights by allow, so that an upgrade gives them the new functions, too.
CREATE TABLE windlass.allowed (
    role text NOT NULL,
    kind text NOT NULL,
    PRIMARY KEY (role, kind)
);

CREATE TABLE windlass.queue (
    name           text PRIMARY KEY CHECK (name ~ '^[a-z0-9_.-]{1,64}$'),
    paused         boolean NOT NULL DEFAULT false,
    max_workers    int,
    process_slots  int,
    retention      float8,
    dead_retention float8 NOT NULL DEFAULT 2592000,
    "window"       int NOT NULL DEFAULT 100 CHECK ("window" > 0),
    cool_until     timestamptz,
    throttles      int NOT NULL DEFAULT 0,
    safety_bound   float8 NOT NULL DEFAULT 3600,
    backoff        boolean NOT NULL DEFAULT true,
    backoff_base   float8 NOT NULL DEFAULT 5,
    backoff_cap    float8 NOT NULL DEFAULT 1800,
    cool_base      float8 NOT NULL DEFAULT 60,
    cool_cap       float8 NOT NULL DEFAULT 1800,
    concurrency    int CHECK (concurrency > 0),
    governor       boolean NOT NULL DEFAULT false,
    rate_min       float8 NOT NULL DEFAULT 1,
    rate_max       float8 NOT NULL DEFAULT 1000,
    max_depth      bigint,
    shed_depth     bigint,
    shed_wait      float8,
    shed_latency   float8,
    refused        bigint NOT NULL DEFAULT 0,
    shed           bigint NOT NULL DEFAULT 0,
    pressure       text NOT NULL DEFAULT 'none' CHECK (pressure IN ('none', 'soft', 'full'))
) WITH (fillfactor = 50);

-- Settings of tasks; NULL means what the code says [P6]. Whether any task has a limit is asked with every
-- claim.
CREATE TABLE windlass.task_setting (
    name            text PRIMARY KEY CHECK (name ~ '^[a-z0-9_.-]{1,64}$'),
    batch           bigint CHECK (batch > 0),
    batch_timeout   float8 CHECK (batch_timeout > 0),
    parallel        bigint CHECK (parallel > 0),
    chunk           bigint CHECK (chunk > 0),
    concurrency     bigint CHECK (concurrency > 0),
    key_concurrency bigint CHECK (key_concurrency > 0)
);
CREATE INDEX ON windlass.task_setting (name) WHERE concurrency IS NOT NULL;

-- ==== Lanes ====

-- A lane is one queue x priority x what its jobs need of a worker: abilities, sorted and with commas between
-- them, '' for none. Its number is never used again; lane 0 is reserved. Its sequences are kept by name: an
-- oid of the publisher would stop a subscriber's apply worker at the first lane that is new there. epoch: the
-- one in which its numbers are sure to be new. skipped: numbers that were passed over at the beginning of an
-- epoch, and that no job has had.
CREATE SEQUENCE windlass.lane_id MINVALUE 1 MAXVALUE 524287 NO CYCLE CACHE 1;
CREATE TABLE windlass.lane (
    id       int PRIMARY KEY CHECK (id BETWEEN 1 AND 524287),
    queue    text NOT NULL REFERENCES windlass.queue (name),
    priority smallint NOT NULL CHECK (priority BETWEEN 0 AND 3),
    position text NOT NULL,
    idle     text NOT NULL,
    epoch    bigint NOT NULL,
    skipped  bigint NOT NULL DEFAULT 0,
    abilities text NOT NULL DEFAULT '',
    UNIQUE (queue, priority, abilities)
);

-- Numbers that must not obey transactions, so they live in sequences. replace_from: where replace_step goes
-- on, past twins that run, also after a step that failed.
CREATE SEQUENCE windlass.job_id MINVALUE 1 MAXVALUE 17592186044415 NO CYCLE CACHE 1;
CREATE SEQUENCE windlass.claim_id MINVALUE 1 NO CYCLE CACHE 1;
CREATE SEQUENCE windlass.seq_set_id MINVALUE 1 NO CYCLE CACHE 1;
CREATE SEQUENCE windlass.segment_current MINVALUE 0 MAXVALUE 7 START 0 CACHE 1;
CREATE SEQUENCE windlass.horizon MINVALUE 0 START 0 CACHE 1;
CREATE SEQUENCE windlass.awaited MINVALUE 0 MAXVALUE 1 START 0 CACHE 1;
CREATE SEQUENCE windlass.replace_from MINVALUE 0 START 0 CACHE 1;
SELECT setval('windlass.segment_current', 0, true), setval('windlass.horizon', 0, true),
       setval('windlass.awaited', 0, true), setval('windlass.replace_from', 0, true);

-- ==== Logs ====

-- The ready log: one row per attempt offered. id is NULL where the position itself is the id, enqueued_at
-- where that was when it was offered.
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

-- The claim log: one row per batch claimed. The newest row of a lane is its cursor. tasks: those of its jobs,
-- in the order of their seqs, or a single one where all are of that task: by them ends are counted [M7].
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
    snapshot      pg_snapshot,
    tasks         text[]
) PARTITION BY LIST (segment);

-- The outcome log: one row per flush, claim and kind. It lives in its claim's segment.
CREATE TABLE windlass.outcome (
    claim   bigint NOT NULL,
    flush   bigint NOT NULL,
    at      timestamptz NOT NULL,
    lane    int NOT NULL,
    n       int NOT NULL,
    segment smallint NOT NULL,
    kind    text NOT NULL,
    seqs    int8multirange NOT NULL
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

-- What a job returned, and in a row of its own (result NULL) the last progress of one that had saved some
-- [P6].
CREATE TABLE windlass.result (
    job     bigint NOT NULL,
    at      timestamptz NOT NULL,
    done    bigint,
    total   bigint,
    segment smallint NOT NULL,
    result  json
) PARTITION BY LIST (segment);

-- Autovacuum is off on log partitions: nothing in them is ever updated, and TRUNCATE gives the space back.
-- The replica identity is what a publication knows a row by: without one, moving and removing rows would fail
-- on the publisher. It costs nothing where no changes are decoded.
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
                CASE WHEN log IN ('ready', 'failure', 'result')
                     THEN ', toast.autovacuum_enabled = false' ELSE '' END);
        END LOOP;
        EXECUTE format('CREATE UNIQUE INDEX ON windlass.%I (lane, seq)', 'ready_' || no);
        EXECUTE format('CREATE INDEX ON windlass.%I (id) WHERE id IS NOT NULL', 'ready_' || no);
        EXECUTE format('CREATE UNIQUE INDEX ON windlass.%I (lane, id)', 'claim_' || no);
        EXECUTE format('CREATE INDEX ON windlass.%I (lane, hi, id)', 'claim_' || no);
        EXECUTE format('CREATE INDEX ON windlass.%I (worker, id) WHERE n > 0 AND worker <> 0',
                       'claim_' || no);
        EXECUTE format('CREATE INDEX ON windlass.%I (lane, id) WHERE late', 'claim_' || no);
        EXECUTE format('CREATE UNIQUE INDEX ON windlass.%I (claim, flush, kind)', 'outcome_' || no);
        EXECUTE format('CREATE INDEX ON windlass.%I (job)', 'failure_' || no);
        EXECUTE format('CREATE INDEX ON windlass.%I (job)', 'result_' || no);
        EXECUTE format('ALTER TABLE windlass.%I REPLICA IDENTITY USING INDEX %I',
                       'ready_' || no, 'ready_' || no || '_lane_seq_idx');
        EXECUTE format('ALTER TABLE windlass.%I REPLICA IDENTITY USING INDEX %I',
                       'claim_' || no, 'claim_' || no || '_lane_id_idx');
        EXECUTE format('ALTER TABLE windlass.%I REPLICA IDENTITY USING INDEX %I',
                       'outcome_' || no, 'outcome_' || no || '_claim_flush_kind_idx');
        EXECUTE format('ALTER TABLE windlass.%I REPLICA IDENTITY FULL', 'failure_' || no);
        EXECUTE format('ALTER TABLE windlass.%I REPLICA IDENTITY FULL', 'result_' || no);
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
    single        boolean PRIMARY KEY DEFAULT true CHECK (single),
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

-- ==== Workers ====

-- The life row is what every write of a worker is fenced by, so it is apart from the heartbeats. `flushed` is
-- the highest flush number whose outcomes were reclaimed; one up to it that names a lost claim was sent
-- before. worker_life.epoch: the epoch in which the worker is alive.
CREATE TABLE windlass.worker (
    id         bigint PRIMARY KEY,
    label      text NOT NULL,
    host       text NOT NULL,
    pid        int NOT NULL,
    queues     text[] NOT NULL,
    started_at timestamptz NOT NULL,
    flushed    bigint NOT NULL DEFAULT 0,
    lease      float8 NOT NULL DEFAULT 30,
    tasks      jsonb NOT NULL DEFAULT '{}',  -- those that it knows, and the queue of each
    abilities  text[] NOT NULL DEFAULT '{}'
);
CREATE TABLE windlass.worker_life (
    id      bigint PRIMARY KEY,
    alive   boolean NOT NULL DEFAULT true,
    settled boolean NOT NULL DEFAULT false,
    epoch   bigint NOT NULL
);
CREATE TABLE windlass.worker_heartbeat (
    id        bigint PRIMARY KEY,
    heartbeat bigint NOT NULL DEFAULT 0,
    at        timestamptz NOT NULL,
    floor     bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- claim, worker: by which a checkpoint was made, while that attempt lasts: what a later checkpoint of the
-- same attempt is known by.
CREATE TABLE windlass.checkpoint (
    job    bigint PRIMARY KEY,
    at     timestamptz NOT NULL,
    done   bigint,
    total  bigint,
    data   json NOT NULL,
    claim  bigint,
    worker bigint
) WITH (fillfactor = 50);

-- The steps of jobs [W1]: only added to. until: when a sleep is over. at: the steps of one call lie a
-- microsecond apart, so that it says their order, too. Eight bytes more or less show in each row.
CREATE TABLE windlass.step (
    job     bigint NOT NULL,
    at      timestamptz NOT NULL,
    until   timestamptz,
    attempt smallint NOT NULL,
    name    text COLLATE "C" NOT NULL,
    code    text NOT NULL,
    result  json NOT NULL,
    PRIMARY KEY (job, name)
);

-- How far the walk over steps has come that looks for jobs which are gone.
CREATE TABLE windlass.step_look (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    page   bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO windlass.step_look DEFAULT VALUES;

-- ==== Signals ====

-- What jobs wait for, until they have it or its time is over: then it is a step [W2]. name: that of the step.
-- claim: the one under which the handler asked last. Where it is the one that its job was suspended under,
-- the job waits for this now; any other row is of a run that went another way. until: NULL is for ever.
-- shape: the JSON schema of what it waits for, for the form that an operator fills in.
CREATE SEQUENCE windlass.signal_no MINVALUE 1 NO CYCLE CACHE 1;
CREATE TABLE windlass.wait (
    job    bigint NOT NULL,
    no     bigint NOT NULL,
    claim  bigint NOT NULL,
    at     timestamptz NOT NULL,
    until  timestamptz,
    name   text COLLATE "C" NOT NULL,
    signal text COLLATE "C" NOT NULL,
    shape  json,
    PRIMARY KEY (job, name)
);
CREATE UNIQUE INDEX ON windlass.wait (no);

-- Signals that no wait has taken yet, in the order in which they were sent. Only added to by those who send.
CREATE TABLE windlass.signal (
    job   bigint NOT NULL,
    no    bigint NOT NULL,
    at    timestamptz NOT NULL,
    name  text COLLATE "C" NOT NULL,
    value json NOT NULL,
    PRIMARY KEY (job, name, no)
);

-- Jobs to be looked at, in case they wait for a signal that is there. Whoever sends one without waking its
-- job adds a row, and so does whoever suspends a job: so the one of them who commits last leaves a row with
-- which both can be seen, and no wake-up is lost. Only added to by them; who has looked removes it.
CREATE TABLE windlass.signal_note (
    job bigint NOT NULL,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id()
);
ALTER TABLE windlass.signal_note REPLICA IDENTITY FULL;
CREATE INDEX ON windlass.signal_note (xid);

-- How far the walk over waits and signals has come that looks for jobs which are gone; and notes, none of
-- which is left of a transaction before `noted`.
CREATE TABLE windlass.signal_look (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    job    bigint NOT NULL DEFAULT 0,
    noted  xid8 NOT NULL DEFAULT '0'
) WITH (fillfactor = 50);
INSERT INTO windlass.signal_look DEFAULT VALUES;

-- Addresses that may send one signal and have done so, until they would be of no use any more.
CREATE TABLE windlass.signal_once (
    token text COLLATE "C" PRIMARY KEY,
    until timestamptz NOT NULL
);
CREATE INDEX ON windlass.signal_once (until);

-- ==== Streams ====

-- The streams of jobs [W3]: only added to, a row for all that one write brought of a job. position: of the
-- last of its n events. run: counts the claims under which the job emitted. Rows go in order, the oldest
-- first; the newest stays.
CREATE TABLE windlass.stream (
    job      bigint NOT NULL,
    position bigint NOT NULL,
    claim    bigint NOT NULL,
    at       timestamptz NOT NULL,
    n        int NOT NULL CHECK (n > 0),
    run      int NOT NULL,
    attempt  smallint NOT NULL,
    events   json NOT NULL,
    PRIMARY KEY (job, position)
);

-- Streams that somebody reads, so that emit notifies for these alone. It may be lost: readers poll as well.
CREATE UNLOGGED TABLE windlass.stream_watch (
    job   bigint PRIMARY KEY,
    until timestamptz NOT NULL
) WITH (fillfactor = 50);

-- How far the walk over streams has come that looks for jobs which are gone.
CREATE TABLE windlass.stream_look (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    job    bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO windlass.stream_look DEFAULT VALUES;

CREATE TABLE windlass.cancel_request (
    job bigint PRIMARY KEY,
    at  timestamptz NOT NULL
);

-- The coordinator's term [K3]. One row; `until` in the past: nobody coordinates.
CREATE TABLE windlass.leader (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    holder bigint,
    term   bigint NOT NULL DEFAULT 0,
    until  timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);
INSERT INTO windlass.leader DEFAULT VALUES;

-- The slots of each worker, as the coordinator assigned them [K1].
CREATE TABLE windlass.slot (
    worker bigint NOT NULL,
    queue  text NOT NULL,
    slots  int NOT NULL,
    PRIMARY KEY (worker, queue)
) WITH (fillfactor = 50);

-- When a chore that one process does for all was last begun; see begin_chore.
CREATE TABLE windlass.chore (
    name text PRIMARY KEY,
    at   timestamptz NOT NULL
);

-- ==== Deferred ====

-- Jobs that are scheduled or retrying, or come after others [P12]: these have an infinite run_at until the
-- last edge is gone, and may run from not_before on. suspended: the claim under which the job began to wait
-- for signals [W2]; NULL where it waits for none.
-- Where an index has the id behind other columns, here and below, it is (id + 0), so that no look-up of a job
-- by its id can use it: to a planner that believes a table empty, reading all of such an index costs as much
-- as one probe of the primary key [rule 8]. Listings walk jobs outside of lanes newest first, each kind by an
-- index of its own, so that a page costs the same however many there are [M3].
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
    options     json,
    not_before  timestamptz,
    suspended   bigint
);
CREATE INDEX ON windlass.deferred (xid);
CREATE INDEX ON windlass.deferred (replaces) WHERE replaces IS NOT NULL;
CREATE INDEX ON windlass.deferred (queue, retrying);
CREATE INDEX ON windlass.deferred (run_at, (id + 0));
CREATE INDEX ON windlass.deferred (retrying, enqueued_at, (id + 0));

-- How far promote has come: to (run_at, job), since many jobs may be due at one moment. retried: how far the
-- walk over deferred_left has come.
CREATE TABLE windlass.deferred_watermark (
    single   boolean PRIMARY KEY DEFAULT true CHECK (single),
    run_at   timestamptz NOT NULL DEFAULT '-infinity',
    snapshot pg_snapshot,
    job      bigint NOT NULL DEFAULT 9223372036854775807,
    retried  bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO windlass.deferred_watermark DEFAULT VALUES;

-- Due jobs that the watermark has passed because another transaction had them locked; see promote.
CREATE TABLE windlass.deferred_left (
    id bigint PRIMARY KEY
);

-- The jobs of groups [W4], by the job that ends the group; no: in the order in which they were added. failed:
-- it has ended, and not succeeded, while the group waited: by that one that is gone is known from one that
-- succeeded and whose retention has passed.
CREATE TABLE windlass.group_job (
    group_end bigint NOT NULL,
    job       bigint NOT NULL,
    no        bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    failed    boolean NOT NULL DEFAULT false,
    PRIMARY KEY (group_end, job)
);
CREATE UNIQUE INDEX ON windlass.group_job (group_end, no);
CREATE INDEX ON windlass.group_job (job) WHERE failed;

-- How far the walk over groups has come that looks for ends which are gone.
CREATE TABLE windlass.group_look (
    single    boolean PRIMARY KEY DEFAULT true CHECK (single),
    group_end bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO windlass.group_look DEFAULT VALUES;

-- A job waits for those that it comes after: an edge for each. One that waits for itself ends a group that is
-- open. Whoever ends a job serves its edges in the
-- same transaction, or notes the end in after_due for follow. fresh: the job may have ended just before
-- others could see the edge, so that nobody served it: follow looks once, when whoever might have missed it
-- is done. + 0 keeps each index for the column that it begins with: while the table is thought to be small,
-- an index of both columns would be as good as any for either [rule 8].
CREATE TABLE windlass.after_edge (
    job    bigint NOT NULL,
    on_job bigint NOT NULL,
    fresh  boolean NOT NULL DEFAULT true
);
ALTER TABLE windlass.after_edge REPLICA IDENTITY FULL;
CREATE UNIQUE INDEX ON windlass.after_edge (job, (on_job + 0));
CREATE INDEX ON windlass.after_edge (on_job, (job + 0));
CREATE INDEX ON windlass.after_edge (job, (on_job + 0)) WHERE fresh;

-- When jobs with `expires` have waited too long [E8]: what end_expired looks at. Their deadline itself is in
-- their options. Rows of jobs that have ended in time stay until it has looked at them.
CREATE TABLE windlass.expiry (
    job bigint PRIMARY KEY,
    at  timestamptz NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX ON windlass.expiry (at, (job + 0));

-- Jobs that have ended and whose edges are yet to be served. Only added to by those who end jobs, and by
-- producers who come after a job that has failed; kind: how it ended, where they know.
CREATE TABLE windlass.after_due (
    id     bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    on_job bigint NOT NULL,
    kind   text
);

-- How far follow has come in after_due and among the fresh edges.
CREATE TABLE windlass.after_look (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    due    bigint NOT NULL DEFAULT 0,
    job    bigint NOT NULL DEFAULT 0,
    on_job bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO windlass.after_look DEFAULT VALUES;

-- Jobs that did not succeed, and how they ended, for a week: what the logs have forgotten and is not noted
-- here has succeeded. Only added to by those who end jobs, so that none of them waits for a producer or for
-- follow.
CREATE TABLE windlass.ended_otherwise (
    job  bigint PRIMARY KEY,
    at   timestamptz NOT NULL,
    kind text NOT NULL
);
CREATE INDEX ON windlass.ended_otherwise (at);

-- Dead jobs, with their last failures. error: the type of the last one, '' for none, so that dead jobs are
-- found and counted by it without reading the tracebacks of all of them. Mostly those of one queue are asked
-- for.
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
    errors      json NOT NULL DEFAULT '[]',
    error       text NOT NULL DEFAULT '',
    done        bigint,
    total       bigint,
    saved_at    timestamptz
);
CREATE INDEX ON windlass.dead (queue, died_at);
CREATE INDEX ON windlass.dead (enqueued_at, (id + 0));
CREATE INDEX ON windlass.dead (queue, enqueued_at, (id + 0));

-- ==== Keys ====

-- touched and rerun remember an enqueue that met a twin; see settle.
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

-- How many jobs of a unique key have died in a row, and when the last one did [O7].
CREATE TABLE windlass.key_death (
    key    text PRIMARY KEY,
    at     timestamptz NOT NULL,
    deaths int NOT NULL
);
CREATE INDEX ON windlass.key_death (at);

CREATE TABLE windlass.idempotency (
    key text PRIMARY KEY,
    job bigint NOT NULL,
    at  timestamptz NOT NULL
);
CREATE INDEX ON windlass.idempotency (at);

-- Jobs that came from elsewhere: where from, the key they had there, and the job that each became. See
-- import_jobs.
CREATE TABLE windlass.imported (
    source text COLLATE "C" NOT NULL,
    key    text COLLATE "C" NOT NULL,
    job    bigint NOT NULL,
    at     timestamptz NOT NULL,
    PRIMARY KEY (source, key)
);

-- ==== Limits ====

-- Gates: where keyed and limited jobs wait until there is room for them [F1] [F3] [F6]; see
-- windlass.core.flow.gates. A held job stands in the waiting list of a gate, or, where that is NULL, in the
-- ring of its fair key. `since` is when it became ready. `need`: how much of the gate's room it takes, which
-- is 1 but for tokens. `replaces`: the job in a lane whose place it takes [E6]. It has its turn in the list
-- of its ordering key, and nobody passes it there; it goes on when that one is gone, see replace_step.
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
    fair_key    text COLLATE "C",
    task        text NOT NULL,
    payload     json NOT NULL,
    options     json,
    gate        text COLLATE "C",
    need        int NOT NULL DEFAULT 1,
    replaces    bigint
);
CREATE INDEX ON windlass.held (gate, turn) WHERE gate IS NOT NULL;
-- With what it needs of a worker, as abilities_of says: a ring is that of a lane.
CREATE INDEX ON windlass.held (queue, priority, (coalesce(options ->> 'needs', '')), fair_key, turn)
    WHERE fair_key IS NOT NULL;
-- The job that waits longest aside, without a look at the others [F5].
CREATE INDEX ON windlass.held (queue, since);
CREATE INDEX ON windlass.held (replaces) WHERE replaces IS NOT NULL;
CREATE INDEX ON windlass.held (enqueued_at, (id + 0));

-- Jobs of an ordering key have their turns in the order in which they are committed, not inserted [F6]: see
-- draw_turn, of which this is no more than the name. What SET CONSTRAINTS ALL IMMEDIATE drew too early is
-- drawn once more. A call of the store's own, which commits right after, says so (windlass.keeps_turn), and
-- its jobs need no second turn.
CREATE FUNCTION windlass.draw_turn() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE CONSTRAINT TRIGGER in_order AFTER INSERT ON windlass.held DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.gate LIKE 'order:%'
                       AND current_setting('windlass.keeps_turn', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION windlass.draw_turn();
CREATE CONSTRAINT TRIGGER in_order_again AFTER UPDATE OF turn ON windlass.held DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.gate = NEW.gate AND NEW.gate LIKE 'order:%') EXECUTE FUNCTION windlass.draw_turn();

-- The fair key that was served last, of each lane.
CREATE TABLE windlass.ring (
    queue     text NOT NULL,
    priority  smallint NOT NULL,
    abilities text NOT NULL,
    key       text COLLATE "C" NOT NULL,
    PRIMARY KEY (queue, priority, abilities)
) WITH (fillfactor = 50);

-- A job that is beyond a gate: a row that names its job, never a count. `turn`: its place in the waiting
-- list, to which it goes back if the tokens it was let out for are gone, or a run that it belongs to is
-- broken off. `at`: when it was given; tokens are kept for a moment only, see promised_tokens. `run`: the
-- passes of a gate with the same number take one place there, see places_taken. It is drawn under the lock of
-- the gate; a pass that was given without it has none, and nobody may join it.
CREATE TABLE windlass.pass (
    job         bigint NOT NULL,
    turn        bigint NOT NULL,
    enqueued_at timestamptz NOT NULL,
    at          timestamptz NOT NULL,
    run         bigint DEFAULT nextval('windlass.held_turn'),
    need        int NOT NULL,
    gate        text COLLATE "C" NOT NULL,
    PRIMARY KEY (job, gate)
);
-- Who asks for the pass of a job at a gate writes gate || '' = ...: else the planner may read all passes of
-- that gate by this index, and under an open snapshot those that are gone as well [rule 8].
CREATE INDEX ON windlass.pass (gate, run);

-- Gates where something has changed: a job joined the list, or a pass was freed. Those who change something
-- only insert, so none waits for another; whoever looks at the gate next removes the row. `turn`: no job that
-- joined with this note has a lower one; so whoever puts jobs into a list notes it first, or names the turn.
CREATE TABLE windlass.changed_gate (
    turn bigint NOT NULL DEFAULT nextval('windlass.held_turn'),
    xid  xid8 NOT NULL DEFAULT pg_current_xact_id(),
    gate text COLLATE "C" NOT NULL
);
ALTER TABLE windlass.changed_gate REPLICA IDENTITY FULL;
CREATE INDEX ON windlass.changed_gate (gate, xid);
CREATE INDEX ON windlass.changed_gate (xid);

-- Where the waiting list and the passes of a gate begin: what was removed before stays in the indexes for as
-- long as anybody has a snapshot open, and nobody shall walk over it again [rule 14]. The newest row of a
-- gate counts, and there is only one. Nobody waits below `turn`, but for those who joined with a note of a
-- transaction from `seen` on; no pass has a lower `run`. A gate without a row begins at 0, so that a row may
-- be removed at any time.
CREATE TABLE windlass.list_start (
    no   bigint NOT NULL DEFAULT nextval('windlass.held_turn'),
    turn bigint NOT NULL,
    run  bigint NOT NULL,
    seen xid8 NOT NULL,
    gate text COLLATE "C" NOT NULL,
    PRIMARY KEY (gate, no)
);

-- How far the looks at gates have come that are not called for: waiting lists, those for tokens, and passes;
-- and notes of changes, none of which is left of a transaction before `noted`.
CREATE TABLE windlass.gate_look (
    single       boolean PRIMARY KEY DEFAULT true CHECK (single),
    job          bigint NOT NULL DEFAULT 0,
    waiting_list text COLLATE "C" NOT NULL DEFAULT '',
    tokens       text COLLATE "C" NOT NULL DEFAULT '',
    looked_at    timestamptz NOT NULL DEFAULT '-infinity',
    noted        xid8 NOT NULL DEFAULT '0'
) WITH (fillfactor = 50);
INSERT INTO windlass.gate_look DEFAULT VALUES;

-- How many jobs of an ordering key had their turn, and when the last of them ended [F6]. One that has its
-- turn and has not ended holds a pass: so the watermark is position - passes, and no count of its own. A key
-- has one row. It is replaced, not updated, and found from its newest end: see move_marks.
CREATE TABLE windlass.order_mark (
    no       bigint NOT NULL DEFAULT nextval('windlass.held_turn'),
    position bigint NOT NULL,
    at       timestamptz NOT NULL,
    queue    text NOT NULL,
    key      text COLLATE "C" NOT NULL,
    PRIMARY KEY (queue, key, no)
);

-- Claims of queues with a limit on what runs, until they are found to have ended; a queue is counted from
-- when it has a row in limited_queue on [F3].
CREATE TABLE windlass.open_claim (
    claim bigint NOT NULL,
    lane  int NOT NULL,
    queue text NOT NULL,
    PRIMARY KEY (queue, claim)
);
CREATE TABLE windlass.limited_queue (
    queue text PRIMARY KEY
);

-- Tasks with a new limit: running jobs are counted by whoever first admits one of their jobs. Rows are only
-- added and removed, so nobody waits for the transaction that sets it.
CREATE TABLE windlass.uncounted_task (
    task text NOT NULL
);
ALTER TABLE windlass.uncounted_task REPLICA IDENTITY FULL;

-- A job that a flush has claimed for its worker: see hand_over. Times are seconds since the epoch.
CREATE TYPE windlass.handed AS (
    lane int, claim bigint, seq bigint, id bigint, task text, payload json, options json, attempt smallint,
    deaths smallint, queue text, priority smallint, enqueued float8, offered float8, run bigint);

-- What one job of a claim needs of one bucket: its place in the claim, and how many tokens.
CREATE TYPE windlass.want AS (place int, n int, budget text, key text);

-- ==== Budgets ====
-- Their times are seconds since the epoch, as the decisions in windlass.core count them.

-- A budget with its breaker [F1] [F7]: failures in a row, openings since it was last closed, and until when
-- it is open or has its probe out. drains, drained_at and drained_until record drains of all its buckets,
-- which each takes in when it is next used. The budget `queue:<queue>` is that of a queue's governor.
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
    key           text,
    drained_at    float8 NOT NULL DEFAULT 0,
    cap           bigint CHECK (cap >= 1),
    cap_per       text NOT NULL DEFAULT 'day' CHECK (cap_per IN ('hour', 'day', 'month')),
    cap_zone      text NOT NULL DEFAULT 'UTC'
) WITH (fillfactor = 50);

-- The buckets of budgets, by key. One that has no row is full, but for drains.
CREATE TABLE windlass.bucket (
    tokens        float8 NOT NULL,
    at            float8 NOT NULL,
    paused_until  float8 NOT NULL DEFAULT 0,
    leased_until  float8 NOT NULL DEFAULT 0,  -- blocks of its tokens are out until then
    whole_until   float8 NOT NULL DEFAULT 0,  -- no more of them before this: somebody needs more than is left
    drains        int NOT NULL DEFAULT 0,
    used          float8 NOT NULL DEFAULT 0,  -- in the period of the budget's cap, which ends then
    used_until    float8 NOT NULL DEFAULT 0,
    budget        text NOT NULL,
    key           text COLLATE "C" NOT NULL,
    PRIMARY KEY (budget, key)
) WITH (fillfactor = 50);

-- What attempts have said last that they really used, kept for an hour: so that it counts once when it is
-- sent again.
CREATE TABLE windlass.spent (
    claim  bigint NOT NULL,
    seq    bigint NOT NULL,
    tokens bigint NOT NULL,
    at     float8 NOT NULL,
    budget text NOT NULL,
    PRIMARY KEY (claim, seq, budget)
);
CREATE INDEX ON windlass.spent (at);

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

-- ==== Parents ====

-- A job from its split on, also after its end, until expire removes it [P4] [P9]. The counters are those of
-- its parts by state; `pending` have not been offered, or wait for their redrive. done and records are those
-- of parts that have succeeded: what the others have saved is in their checkpoints. final_state: NULL, out,
-- or how the finalizer ended. pending_from: no part below this index is pending, so that who looks for the
-- next one need not pass the dead index entries of all that were.
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
    pending_from int NOT NULL DEFAULT 0,
    out         int NOT NULL DEFAULT 0 CHECK (out >= 0),
    succeeded   int NOT NULL DEFAULT 0 CHECK (succeeded >= 0),
    dead        int NOT NULL DEFAULT 0 CHECK (dead >= 0),
    cancelled   int NOT NULL DEFAULT 0 CHECK (cancelled >= 0),
    parallel    int CHECK (parallel > 0),
    tolerated   int NOT NULL,
    priority    smallint NOT NULL,
    attempt     smallint NOT NULL,
    deaths      smallint NOT NULL,
    finalizer   boolean NOT NULL,
    cancelling  boolean NOT NULL DEFAULT false,
    state       text NOT NULL DEFAULT 'waiting'
                CHECK (state IN ('waiting', 'succeeded', 'dead', 'cancelled')),
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
CREATE INDEX ON windlass.parent (queue, finished_at) WHERE state <> 'waiting';
CREATE INDEX ON windlass.parent (created_at, (id + 0));
CREATE INDEX ON windlass.parent (created_at, (id + 0)) WHERE state = 'waiting';
CREATE INDEX ON windlass.parent (queue) WHERE state = 'waiting' AND pending > 0;
CREATE INDEX ON windlass.parent (state, enqueued_at, (id + 0));

-- A part: what it covers and the job that runs it, or ran it last. state: pending, out, succeeded, dead,
-- cancelled. -1 is the finalizer, once it was offered. attempt, records and error are those it ended with.
CREATE TABLE windlass.part (
    parent  bigint NOT NULL,
    size    bigint NOT NULL,
    job     bigint,
    records bigint NOT NULL DEFAULT 0,
    index   int NOT NULL,
    attempt smallint NOT NULL DEFAULT 0,
    claimed boolean NOT NULL DEFAULT false,   -- since it was offered
    state   text NOT NULL DEFAULT 'pending',
    span    json NOT NULL,
    error   text,
    PRIMARY KEY (parent, index)
);
CREATE INDEX ON windlass.part (parent) WHERE state = 'out' AND NOT claimed;
CREATE INDEX ON windlass.part (job);
CREATE INDEX ON windlass.part (parent, index) WHERE state = 'pending';
CREATE INDEX ON windlass.part (parent, index) WHERE state <> 'succeeded' AND job IS NOT NULL;

-- Parents that are gone, some of whose parts are not yet: expire removes these step by step.
CREATE TABLE windlass.dropped_parent (
    id bigint PRIMARY KEY
);

-- How the jobs of parts ended, until advance has folded it into their parents. Only added to by those who end
-- jobs, so that no two of them wait for each other.
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

-- ==== Schedules ====

-- Schedules [K4]. Times are seconds since the epoch. next_at NULL: never due, and error says why. live: made
-- or changed at run time; declared: what the code says, as JSON, NULL where none does.
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
    options  json,
    live     boolean NOT NULL DEFAULT false,
    declared text,
    declared_at float8
) WITH (fillfactor = 50);
CREATE INDEX ON windlass.schedule (next_at, name COLLATE "C") WHERE NOT paused;
CREATE INDEX ON windlass.schedule (last_at) WHERE NOT paused;

-- ==== Measures ====

-- Reports of processes that no rollup has folded yet: samples of core.rollup, as JSON. Only added to, then
-- removed. No job waits for a lock on this or on anything below.
CREATE TABLE windlass.report (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source  bigint NOT NULL,
    number  bigint NOT NULL,
    at      timestamptz NOT NULL,
    samples json
);

-- Who has reported, and the number of its last call: one that comes again changes nothing.
CREATE TABLE windlass.reporter (
    source    bigint PRIMARY KEY,
    number    bigint NOT NULL,
    at        timestamptz NOT NULL,
    vitals_at timestamptz,
    vitals    json
) WITH (fillfactor = 50);

-- The rows of charts [M1]: spans of 60 and 3600 seconds by their first second, and everything ever as span 0.
-- Empty names mean all queues and tasks. What was counted is packed, see store/measures.py: as JSON it
-- would take ten times as much.
CREATE TABLE windlass.measured (
    at     bigint NOT NULL,
    span   int NOT NULL,
    queue  text COLLATE "C" NOT NULL,
    task   text COLLATE "C" NOT NULL,
    sample bytea NOT NULL,
    PRIMARY KEY (span, queue, task, at)
) WITH (fillfactor = 70);
CREATE INDEX ON windlass.measured (span, at);

-- Timelines [M2]. Their times are those that processes reported, in seconds since the epoch.
CREATE TABLE windlass.event (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      float8 NOT NULL,
    job     bigint,
    ms      float8,
    attempt int NOT NULL,
    kind    text NOT NULL,
    queue   text NOT NULL,
    task    text NOT NULL,
    worker  text NOT NULL,
    text    text NOT NULL
);
CREATE INDEX ON windlass.event (job, id) WHERE job IS NOT NULL;
CREATE INDEX ON windlass.event (queue, id);

-- ==== Counts ====

-- How many jobs have ended, and how, by queue and task [M7]: the fold of claims and outcomes, see count_lane.
-- gone: those of n whose evidence is no longer in the logs, or never was. leaving: those whose claims go with
-- the segment that a rotation is about to reclaim.
CREATE TABLE windlass.ended_count (
    n       bigint NOT NULL,
    gone    bigint NOT NULL DEFAULT 0,
    leaving bigint NOT NULL DEFAULT 0,
    queue   text COLLATE "C" NOT NULL,
    task    text COLLATE "C" NOT NULL,
    kind    text COLLATE "C" NOT NULL,
    PRIMARY KEY (queue, task, kind)
) WITH (fillfactor = 50);

-- How far the claims of a lane are counted: every one up to `through` but those in `open`, of which something
-- is unfinished.
CREATE TABLE windlass.counted_lane (
    lane    int PRIMARY KEY,
    through bigint NOT NULL,
    open    bigint[] NOT NULL
) WITH (fillfactor = 50);

-- Ends of jobs that leave no outcome: parents, and jobs that die while they wait for others. Only added to by
-- who ends them, so that none waits for another; counted and forgotten by count_ends.
CREATE TABLE windlass.ended_aside (
    queue text NOT NULL,
    task  text NOT NULL,
    kind  text NOT NULL
);
ALTER TABLE windlass.ended_aside REPLICA IDENTITY FULL;

-- How many jobs of a queue stand aside, where that was more than a thousand when they were last counted [M1].
CREATE TABLE windlass.aside_count (
    n     bigint NOT NULL,
    at    timestamptz NOT NULL,
    kind  text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    PRIMARY KEY (kind, queue)
) WITH (fillfactor = 50);

-- ==== Adoption ====

-- Epochs [S3]: a history of this store that nothing was lost from. See windlass.epoch_here and docs/adr/0025.
-- Unlogged on purpose: a recovery, after a crash as after a promotion or a restore, empties it, and a clean
-- restart leaves it as it is. place is the oid of the table itself: a row that came with a dump names another
-- one.
CREATE UNLOGGED TABLE windlass.epoch_mark (
    place bigint PRIMARY KEY,
    epoch bigint NOT NULL
);
INSERT INTO windlass.epoch_mark (epoch, place) VALUES (1, 'windlass.epoch_mark'::regclass::oid);
