-- Dead jobs are counted by the type of their last failure [O4]: from this index alone, since failures are most of what a dead
-- row holds. No other job has an entry here.
CREATE INDEX windlass_job_cause ON windlass_job (state, number, lane, task, touched_at, errors ->> '$[#-1].type') WHERE state = 5;
