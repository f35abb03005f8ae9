-- The table of the demo, without any key on purpose. Callers: Place.create. Lock: none that anybody waits for.
CREATE TABLE {table} (
    id bigint NOT NULL,
    part integer NOT NULL,
    worker integer NOT NULL,
    customer text NOT NULL,
    amount bigint NOT NULL,
    at text NOT NULL,
    note text NOT NULL
)
