-- The tables that the references work on, in the database of the run.
-- Callers: Reference.create. Lock: none that matters; nobody else knows them.

-- The same columns as ready and one index: no queue on PostgreSQL can add rows faster than this takes them.
CREATE TABLE bench_raw (
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
    options     json,
    PRIMARY KEY (lane, seq)
);

-- A jobs table as most people write it: rows change their state, an index finds those that are ready.
CREATE TABLE bench_classic (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    enqueued_at timestamptz NOT NULL DEFAULT now(),
    claimed_at  timestamptz,
    finished_at timestamptz,
    worker      bigint,
    attempt     smallint NOT NULL DEFAULT 0,
    state       text NOT NULL DEFAULT 'ready',
    task        text NOT NULL,
    payload     json NOT NULL
);
CREATE INDEX ON bench_classic (id) WHERE state = 'ready';
