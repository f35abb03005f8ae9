-- Listings walk the jobs that are not in a lane newest first, each kind by an index of its own, so that a page costs the same
-- however many there are [M3]. Of the dead mostly those of one queue are asked for.
CREATE INDEX ON windlass.deferred (retrying, enqueued_at, id);
CREATE INDEX ON windlass.held (enqueued_at, id);
CREATE INDEX ON windlass.dead (enqueued_at, id);
CREATE INDEX ON windlass.dead (queue, enqueued_at, id);
CREATE INDEX ON windlass.parent (state, enqueued_at, id);
