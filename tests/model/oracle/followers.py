"""Jobs that come after others [P12]: with the end of the last of these they go on, or end by their policy."""

from __future__ import annotations

from tests.model.oracle.job import Job
from tests.model.oracle.tables import Tables
from windlass.core.states import FINISHED, State


def follow(tables: Tables, now: float) -> None:
    """Bring jobs up to date with those they come after, which is the last step of every operation [W4]."""
    while any(_bring_up_to_date(tables, job, now) for job in [job for job in tables.deferred if job.after]):
        pass  # the end of one may be the end of the next
    free = [
        job
        for job in tables.deferred
        if (job.options.after or job.options.group_end) and not job.after and job.run_at is None
    ]
    for job in sorted(free, key=lambda job: job.id):
        tables.offer(job, now, turn=True)


def _bring_up_to_date(tables: Tables, job: Job, now: float) -> bool:
    """Whether the job has ended."""
    states = {id: tables.jobs[id].state if id in tables.jobs else None for id in job.after}
    failed = [id for id, state in states.items() if state in (None, State.DEAD, State.CANCELLED)]
    only_otherwise = job.options.otherwise == "run_only"
    if failed and only_otherwise:
        states = {}
    elif failed and job.options.otherwise != "run":
        end = State.CANCELLED if job.options.otherwise == "cancel" else State.DEAD
        why = f"job {failed[0]}, which it comes after, is {states[failed[0]] or 'gone'}"
        tables.end(job, end, now, reason=why)
        return True
    job.failed.update(failed)
    job.after = tuple(id for id, state in states.items() if state and state not in FINISHED)
    if only_otherwise and not failed and not job.after:
        tables.end(job, State.CANCELLED, now, reason="all jobs that it comes after have succeeded")
        return True
    job.reason = job.waits_for()
    if not job.after and job.run_at is not None and job.run_at <= now:
        job.run_at = None
    return False
