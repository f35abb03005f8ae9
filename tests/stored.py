"""A job as its store has it: JSON text as a codec left it, times in seconds."""

from typing import Any

from windlass import Job
from windlass.store.records import JobRecord


def stored(job: Job[Any]) -> JobRecord:
    """The record of a job, from plain code or from a loop."""
    return job._run(job._look)
