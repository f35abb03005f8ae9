-- What a cluster needs to know: cool-downs and limits of queues, leases, who coordinates, and how many slots each
-- worker has. Small mutable tables and columns, all of them off the hot path.

ALTER TABLE windlass.queue
    ADD COLUMN cool_until   timestamptz,
    ADD COLUMN throttles    int NOT NULL DEFAULT 0,
    ADD COLUMN safety_bound float8 NOT NULL DEFAULT 3600,
    ADD COLUMN backoff      boolean NOT NULL DEFAULT true,
    ADD COLUMN backoff_base float8 NOT NULL DEFAULT 5,
    ADD COLUMN backoff_cap  float8 NOT NULL DEFAULT 1800,
    ADD COLUMN cool_base    float8 NOT NULL DEFAULT 60,
    ADD COLUMN cool_cap     float8 NOT NULL DEFAULT 1800;

ALTER TABLE windlass.worker ADD COLUMN lease float8 NOT NULL DEFAULT 30;

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

-- Their successors take one argument more, which has a default: calls as before mean the same.
DROP FUNCTION IF EXISTS windlass.register(bigint, text, text, int, text[]);
DROP FUNCTION IF EXISTS windlass.finish(
    bigint, bigint, int[], bigint[], text[], int[], text[], bigint[], bigint[], int[], bigint[], text[], json);
