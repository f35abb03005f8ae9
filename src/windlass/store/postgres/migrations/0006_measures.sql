-- Measures [M1], timeline events [M2] and what workers say of themselves [M3]. None of it is on the path of a job, and no
-- job waits for a lock on any of it.

-- What processes have told and no rollup has folded yet: samples of core.rollup, as JSON. Only added to, then removed.
CREATE TABLE windlass.news (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source  bigint NOT NULL,
    number  bigint NOT NULL,
    at      timestamptz NOT NULL,
    samples json NOT NULL
);

-- Who has told, and the number of its last call: one that comes again changes nothing. No column that changes is indexed,
-- so that updates stay HOT.
CREATE TABLE windlass.teller (
    source    bigint PRIMARY KEY,
    number    bigint NOT NULL,
    at        timestamptz NOT NULL,
    vitals_at timestamptz,
    vitals    json
) WITH (fillfactor = 50);

-- The rows of charts: spans of 60 and 3600 seconds by their first second, and everything ever as span 0. Empty names stand
-- for all queues and tasks. What was counted is packed, see store/telling.py: as JSON it would take ten times as much.
CREATE TABLE windlass.measured (
    at     bigint NOT NULL,
    span   int NOT NULL,
    queue  text COLLATE "C" NOT NULL,
    task   text COLLATE "C" NOT NULL,
    sample bytea NOT NULL,
    PRIMARY KEY (span, queue, task, at)
) WITH (fillfactor = 70);
CREATE INDEX ON windlass.measured (span, at);

-- Timelines. Their times are those that processes told, in seconds since the epoch.
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
    told    text NOT NULL
);
CREATE INDEX ON windlass.event (job, id) WHERE job IS NOT NULL;
CREATE INDEX ON windlass.event (queue, id);

-- Their successors answer with more: when each attempt was offered. Calls as before mean the same. Nobody but a worker calls
-- any of them; what users call is never dropped, since views may stand on it.
DROP PROCEDURE IF EXISTS windlass.claim(
    int, bigint, int, int, text, bigint, bigint[], bigint[], text[], text[], text[], smallint[], smallint[], float8[],
    json, boolean);
DROP FUNCTION IF EXISTS windlass.claim_take(int, bigint, int, boolean);
DROP FUNCTION IF EXISTS windlass.claim_gated(
    int, bigint, bigint[], bigint[], text[], text[], text[], smallint[], smallint[], float8[]);
DROP FUNCTION IF EXISTS windlass.claim_needs(
    int, bigint, json, bigint[], bigint[], text[], text[], text[], smallint[], smallint[], float8[], int);
DROP FUNCTION IF EXISTS windlass.claim_without(
    int[], bigint[], bigint[], text[], text[], text[], smallint[], smallint[], float8[]);
