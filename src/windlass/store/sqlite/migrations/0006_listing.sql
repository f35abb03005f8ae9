-- Jobs that have moved are listed by number, too [M3]: by their births, as the others are, a page would go through every birth
-- before it knew that none of its jobs has moved. A job that is enqueued, claimed and succeeds has no entry here.
CREATE INDEX windlass_job_moved_number ON windlass_job (number) WHERE id IS NOT NULL;
