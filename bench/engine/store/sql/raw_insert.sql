-- One batch into the plain table. Callers: Reference.raw_insert. Lock: ROW EXCLUSIVE.
INSERT INTO bench_raw (lane, seq, segment, task, payload, offered_at)
SELECT 1, u.seq, 0, $1, u.payload::json, clock_timestamp()
  FROM unnest($2::bigint[], $3::text[]) AS u (seq, payload)
