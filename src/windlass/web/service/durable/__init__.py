"""Streams of jobs, for operators and programs."""
