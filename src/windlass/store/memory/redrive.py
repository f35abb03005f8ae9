"""How a parent goes on that had stopped or ended: redrive, and the retry of a dead part [P9]."""

from __future__ import annotations

from windlass.core.states import FINISHED, State
from windlass.errors import AlreadyEnqueued, Finalizing
from windlass.store.memory.family import Parent, advance
from windlass.store.memory.job import Job
from windlass.store.memory.tables import Tables


def redrive(tables: Tables, parent: Parent, now: float) -> int:
    """Let the failed parts wait for their turn again, and those that a cancel kept from theirs."""
    stopped = parent.job.cancel_requested
    again = [part for part in parent.parts if part.failed or (stopped and part.job is None)]
    final = parent.final is not None and parent.final.state in (State.DEAD, State.CANCELLED)
    if not again and not final:
        return 0
    _refuse_finalizing(parent)
    _reopen(tables, parent, now)
    for part in again:
        if part.job is not None:
            _bury(tables, part.job)
            part.job = None
    advance(tables, parent, now)
    return len(again) + final


def retry_part(tables: Tables, parent: Parent, job: Job, now: float) -> None:
    """Bring a dead part back, from its last checkpoint, and its parent with it."""
    _refuse_finalizing(parent)
    cancelled = parent.job.cancel_requested
    _reopen(tables, parent, now, but=job)
    parent.job.cancel_requested = cancelled  # one part comes back; the others stay where the cancel left them
    tables.revive(job, now)
    job.checkpoint = next((part.kept for part in parent.parts if part.job is job), None)


def _refuse_finalizing(parent: Parent) -> None:
    """The finalizer never runs beside parts: while it waits or runs, none of them comes back."""
    if parent.final is not None and parent.final.state not in FINISHED:
        raise Finalizing.of(parent.job.id, parent.final.id)


def _reopen(tables: Tables, parent: Parent, now: float, but: Job | None = None) -> None:
    """A parent waits for its parts again, with its key. A finalizer that did not succeed will run anew."""
    key = parent.job.options.unique_key
    if parent.ended and key is not None:
        if key in tables.unique:
            raise AlreadyEnqueued(
                f"unique key {key!r} of parent {parent.job.id} is held by job {tables.unique[key].id} now: "
                "cancel that one, or wait for its end",
                tables.unique[key].id,
            )
        tables.unique[key] = parent.job
    tables.wait_for_parts(parent.job, now)
    final = parent.final
    if final is not None and final is not but and final.state in (State.DEAD, State.CANCELLED):
        _bury(tables, final)
        parent.final = None


def _bury(tables: Tables, job: Job) -> None:
    """A dead job that another goes on for leaves the dead letters; a cancelled one stays as it is."""
    if job.state is State.DEAD:
        tables.jobs.pop(job.id, None)
