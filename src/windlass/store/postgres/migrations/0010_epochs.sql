-- Epochs [S3]: a history of this store that nothing was lost from. See windlass.epoch_here and docs/adr/0025.

-- Unlogged on purpose: a recovery, after a crash as after a promotion or a restore, empties it, and a clean restart leaves it
-- as it is. place is the oid of the table itself: a row that came with a dump names another one.
CREATE UNLOGGED TABLE windlass.epoch_mark (
    place bigint PRIMARY KEY,
    epoch bigint NOT NULL
);
INSERT INTO windlass.epoch_mark (epoch, place) VALUES (1, 'windlass.epoch_mark'::regclass::oid);

-- ids_from: where the ids of jobs outside of lanes go on after a loss, see skip_ids.
ALTER TABLE windlass.meta
    ADD COLUMN epoch    bigint NOT NULL DEFAULT 1,
    ADD COLUMN ids_from bigint NOT NULL DEFAULT 0,
    ADD COLUMN timeline int;
UPDATE windlass.meta SET ids_from = coalesce(pg_sequence_last_value('windlass.job_id'::regclass), 0) + (1 << 29);

-- The epoch in which a worker is alive, and a lane's numbers are sure to be new. Whoever adds a row says which.
ALTER TABLE windlass.worker_life ADD COLUMN epoch bigint NOT NULL DEFAULT 1;
ALTER TABLE windlass.worker_life ALTER COLUMN epoch DROP DEFAULT;

-- Sequences by name: an oid of the publisher would stop a subscriber's apply worker at the first lane that is new there.
-- skipped: numbers that were passed over at the beginning of an epoch, and that no job has had.
ALTER TABLE windlass.lane
    ALTER COLUMN position TYPE text USING 'windlass.lane_' || id || '_position',
    ALTER COLUMN idle TYPE text USING 'windlass.lane_' || id || '_idle',
    ADD COLUMN epoch   bigint NOT NULL DEFAULT 1,
    ADD COLUMN skipped bigint NOT NULL DEFAULT 0;
ALTER TABLE windlass.lane ALTER COLUMN epoch DROP DEFAULT;

-- What a publication needs to know a row by: without it, moving and removing rows would fail on the publisher. It costs
-- nothing where no changes are decoded.
DO $$
DECLARE
    i record;
BEGIN
    FOR i IN
        SELECT c.relname AS log, x.relname AS index
          FROM pg_class c LEFT JOIN (pg_index u JOIN pg_class x ON x.oid = u.indexrelid) ON u.indrelid = c.oid AND u.indisunique
         WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'windlass.meta'::regclass)
           AND c.relkind = 'r' AND NOT EXISTS (SELECT FROM pg_index p WHERE p.indrelid = c.oid AND p.indisprimary)
    LOOP
        EXECUTE format('ALTER TABLE windlass.%I REPLICA IDENTITY ' ||
                       CASE WHEN i.index IS NULL THEN 'FULL' ELSE 'USING INDEX ' || quote_ident(i.index) END, i.log);
    END LOOP;
END $$;

-- It answers with the reason now.
DROP FUNCTION IF EXISTS windlass.must_adopt();
