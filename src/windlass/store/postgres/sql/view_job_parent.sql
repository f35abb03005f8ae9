-- Every parent and how far its parts are, one row each [P4] [P9]. Lock: none.
--   total                                     parts in all; out: released and not ended
--   succeeded, dead, cancelled, out           how many of them stand so; the rest has not been released
--   parallel, tolerated                       how many run at a time, and how many may fail
--   size, done, records                       their sizes together, and how much is done, by what they have saved
--   final                                     the finalizer's job, once all parts have ended
CREATE OR REPLACE VIEW windlass.job_parent AS
SELECT p.id, p.task, p.queue, p.state, p.total, p.succeeded, p.dead, p.cancelled, p.out, p.parallel, p.tolerated, p.size,
       (p.done + s.done)::bigint AS done, (p.records + s.records)::bigint AS records, p.final,
       p.cancelling AS cancel_requested, p.reason, p.enqueued_at, p.created_at, p.finished_at
  FROM windlass.parent p
 CROSS JOIN LATERAL windlass.saved_of(p.id) AS s;
