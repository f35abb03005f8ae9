-- Every part of every parent, one row each, the finalizer as index -1 [P4]. Lock: none.
--   parent, index (from 0), total   which part it is
--   span, size                      what it covers, in the splitter's words and unit
--   state                           waiting before its release, then the state of its job
--   job, attempt                    the job that runs it, or ran it last
--   done, records                   its progress, by what it has saved
--   error                           what it died of;  created_at: when the parent was split
CREATE OR REPLACE VIEW windlass.job_part AS
SELECT t.parent, t.index, p.total, t.span, t.size,
       CASE t.state WHEN 'pending' THEN 'waiting' WHEN 'out' THEN coalesce(s.state, 'cancelled') ELSE t.state END AS state,
       CASE WHEN t.state <> 'pending' THEN t.job END AS job,
       CASE t.state WHEN 'pending' THEN 0::smallint ELSE coalesce(s.attempt, t.attempt) END AS attempt,
       CASE WHEN t.state = 'succeeded' OR s.state = 'succeeded' THEN t.size ELSE coalesce(k.done, 0) END AS done,
       CASE WHEN t.state = 'succeeded' THEN t.records ELSE windlass.records_of(k.data) END AS records,
       t.error, p.created_at
  FROM windlass.part t
  JOIN windlass.parent p ON p.id = t.parent
  LEFT JOIN windlass.checkpoint k ON k.job = t.job
  LEFT JOIN LATERAL (SELECT * FROM windlass.standing_of(t.job) WHERE t.state = 'out' OFFSET 0) AS s ON true;
