-- Gates: where keyed and limited jobs wait aside until there is room for them [F1] [F3] [F6]; see windlass.core.gates. All
-- of it off the hot path.

-- A held job stands in the line of a gate, or, where that is NULL, in the ring of its fair key. `need`: how much of the
-- gate's room it takes, which is 1 but for tokens.
ALTER TABLE windlass.held
    ALTER COLUMN fair_key DROP NOT NULL,
    ADD COLUMN gate text COLLATE "C",
    ADD COLUMN need int NOT NULL DEFAULT 1;
CREATE INDEX ON windlass.held (gate, turn) WHERE gate IS NOT NULL;
DROP INDEX IF EXISTS windlass.held_queue_priority_fair_key_turn_idx;
CREATE INDEX ON windlass.held (queue, priority, fair_key, turn) WHERE fair_key IS NOT NULL;

-- Jobs of an ordering key have their turns in the order in which they are committed, not inserted [F6]: see draw_turn, of which
-- this is no more than the name.
CREATE FUNCTION windlass.draw_turn() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE CONSTRAINT TRIGGER in_order AFTER INSERT ON windlass.held DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.gate LIKE 'order:%') EXECUTE FUNCTION windlass.draw_turn();

-- A job that is beyond a gate. A row that names its job, never a count. `turn`: its place in the line, to which it goes back
-- if the tokens it was let out for are gone. `at`: when it was given; tokens are kept for a moment only, see promised.
CREATE TABLE windlass.pass (
    job         bigint NOT NULL,
    turn        bigint NOT NULL,
    enqueued_at timestamptz NOT NULL,
    at          timestamptz NOT NULL,
    need        int NOT NULL,
    gate        text COLLATE "C" NOT NULL,
    PRIMARY KEY (job, gate)
);
CREATE INDEX ON windlass.pass (gate);

-- Gates where something has changed: somebody came, or a place was freed. Only added to by those who do that, so that none
-- of them waits for another; forgotten by whoever has looked at the gate since.
CREATE TABLE windlass.stirred_gate (
    gate text COLLATE "C" NOT NULL
);
CREATE INDEX ON windlass.stirred_gate (gate);

-- How far the looks at gates have come that are not called for: lines, lines for tokens, and passes.
CREATE TABLE windlass.gate_look (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    job    bigint NOT NULL DEFAULT 0,
    line   text COLLATE "C" NOT NULL DEFAULT '',
    tokens text COLLATE "C" NOT NULL DEFAULT ''
) WITH (fillfactor = 50);
INSERT INTO windlass.gate_look DEFAULT VALUES;

-- How many jobs of an ordering key had their turn, and when the last of them ended [F6]. One that has its turn and has not
-- ended holds a pass: so the watermark is position - passes, and no count of its own.
CREATE TABLE windlass.order_mark (
    position bigint NOT NULL,
    at       timestamptz NOT NULL,
    queue    text NOT NULL,
    key      text COLLATE "C" NOT NULL,
    PRIMARY KEY (queue, key)
) WITH (fillfactor = 50);

-- Claims of queues with a limit on what runs, until they are found to have ended; a queue is counted from when it has a row
-- in limited_queue on [F3].
CREATE TABLE windlass.open_claim (
    claim bigint NOT NULL,
    lane  int NOT NULL,
    queue text NOT NULL,
    PRIMARY KEY (queue, claim)
);
CREATE TABLE windlass.limited_queue (
    queue text PRIMARY KEY
);

-- What one job of a claim needs of one bucket: its place in the claim, and how many tokens.
CREATE TYPE windlass.want AS (place int, n int, budget text, key text);

ALTER TABLE windlass.queue ADD COLUMN concurrency int CHECK (concurrency > 0);
ALTER TABLE windlass.task_setting
    ADD COLUMN concurrency     bigint CHECK (concurrency > 0),
    ADD COLUMN key_concurrency bigint CHECK (key_concurrency > 0);

-- Their successors take more arguments, which have defaults, or answer with more: calls as before mean the same.
DROP FUNCTION IF EXISTS windlass.enqueue(
    text, json, text, text, interval, timestamptz, int, interval, text, text, text, text, text[], json, text, bigint[], text);
DROP FUNCTION IF EXISTS windlass.enqueue_one(
    text, text, text, smallint, float8, timestamptz, text, text, text, boolean, boolean);
DROP FUNCTION IF EXISTS windlass.enqueue_many(text, smallint, text[], text[], text[]);
DROP FUNCTION IF EXISTS windlass.finish(
    bigint, bigint, int[], bigint[], text[], int[], text[], bigint[], bigint[], int[], bigint[], text[], json, boolean[]);
DROP FUNCTION IF EXISTS windlass.finish_others(bigint, bigint, json);
DROP FUNCTION IF EXISTS windlass.give_back(bigint, text, float8[], int);
DROP FUNCTION IF EXISTS windlass.rescue_step(bigint, float8[], int);
DROP PROCEDURE IF EXISTS windlass.claim(
    int, bigint, int, int, text, bigint, bigint[], bigint[], text[], text[], text[], smallint[], smallint[], float8[]);
DROP FUNCTION IF EXISTS windlass.claim_take(int, bigint, int);
DROP FUNCTION IF EXISTS windlass.lane_heads(text[]);
