-- What statements of several modules have in common.

-- =row  the columns of rows.Row; `j` is the job
j.pos, j.lane, j.state, j.touched_at, j.attempt, j.deaths, j.options, j.id, j.cancel, j.errors, j.task,
j.gate, j.need
