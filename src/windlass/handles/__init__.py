"""What users hold: a job, a parent, a budget, many jobs by filter."""
