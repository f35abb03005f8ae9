-- What statements of several modules have in common.

-- =row  the columns of rows.Row; `j` is the job
j.pos, j.lane, j.state, j.touched_at, j.attempt, j.deaths, j.options AS options_json, j.id AS own_id, j.cancel,
j.errors AS errors_json, j.task, j.gate, j.need

-- =places  how many places are taken at a gate that is no budget's; `p` are its passes. Each takes one, and the
-- jobs of a run one together [F3].
count(*) FILTER (WHERE p.run IS NULL) + count(DISTINCT p.run)
