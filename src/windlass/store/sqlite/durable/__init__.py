"""Durable functions: steps, waits and streams of jobs."""
