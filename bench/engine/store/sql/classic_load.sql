-- One batch of jobs to be claimed. Callers: Reference.load. Lock: ROW EXCLUSIVE.
INSERT INTO bench_classic (task, payload)
SELECT $1, u.payload::json FROM unnest($2::text[]) AS u (payload)
