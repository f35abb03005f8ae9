"""Handles: what can be done with a job, or with many, once it is enqueued."""
