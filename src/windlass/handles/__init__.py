"""Handles that users hold: a job, a parent, a queue, a task's settings, a budget, many jobs by filter."""
