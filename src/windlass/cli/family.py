"""One parent with its parts, as `windlass parent` looks at it: what is asked of the store, and what to say
where an id is not a parent's. Reading never changes anything."""

from __future__ import annotations

from typing import Final

import click
import msgspec

from windlass.core.states import FINISHED, State
from windlass.store.protocol import Store
from windlass.store.records import JobRecord, ParentRecord, PartRecord
from windlass.words.parts import look_at_parts
from windlass.words.text import one_line

_PAGE: Final = 10_000
FINAL: Final = -1
"""The index of a finalizer."""


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """A parent and how its parts stand."""

    parent: ParentRecord
    states: list[State]
    """Of every part, by index."""
    needing: list[PartRecord]
    """Some of those that need attention, the most urgent first."""
    final: JobRecord | None = None


async def look_at(store: Store, parent: ParentRecord) -> Family:
    """All parts of a parent, of which only the states are kept, and few of them as a whole."""
    parts = await look_at_parts(store, parent.id)
    return Family(
        parent=parent,
        states=parts.states,
        needing=parts.needing,
        final=None if parent.final is None else await store.job(parent.final),
    )


async def every_part(store: Store, parent: int) -> list[PartRecord]:
    """All of them as a whole."""
    parts: list[PartRecord] = []
    while page := await store.parts(parent, start=len(parts), limit=_PAGE):
        parts += page
    return parts


async def find_parent(store: Store, id: int) -> ParentRecord:
    """The parent, or an error that says what the id is instead and what to do."""
    parent = await store.parent(id)
    if parent is None:
        raise click.ClickException(not_a_parent(id, await store.job(id)))
    return parent


def is_to_be_split(job: JobRecord | None) -> bool:
    """Whether a job will be a parent once a worker has got to it."""
    return job is not None and job.options.chunked and job.state not in FINISHED


def not_a_parent(id: int, job: JobRecord | None) -> str:
    """What an id is that names no parent."""
    if job is None:
        return (
            f"no parent {id}: it never existed, was deleted, or its retention has passed; "
            "see `windlass parents`"
        )
    part, see = job.options.part, f"see `windlass job show {id}`"
    if part is not None:
        what = "the finalizer" if part.index == FINAL else f"part {part.index} (from 0) of {part.total}"
        return f"job {id} is {what} of parent {part.parent}; see `windlass parent show {part.parent}`"
    if is_to_be_split(job):
        queue = one_line(job.queue)
        return f"job {id} is {job.state} and has no parts until a worker of queue {queue} has split it; {see}"
    if job.options.chunked:
        return f"job {id} has no parts: it ended {job.state} before it was split; {see}"
    return f"job {id} of task {one_line(job.task)} is a plain job: it was not split into parts; {see}"
