"""One parent with its parts: what is read of it, what to say where an id is not a parent's, and how it is
drawn by `windlass parent show` and listed by `windlass parents`. Reading never changes anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import click
import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from windlass.cli.output import bar, make_sheet, make_table, strip
from windlass.core.counts import plural
from windlass.core.progress import Look, Progress, progress
from windlass.core.states import FINISHED, State
from windlass.presentation.parents import NEEDING, Parts, read_parts, with_errors
from windlass.presentation.retries import RetryingShape, retrying_of
from windlass.presentation.text import local, one_line, parts_at_a_time, span
from windlass.presentation.waiting import state_in_words
from windlass.store.protocol import Store
from windlass.store.records import JobRecord, ParentRecord, PartRecord

_PAGE: Final = 10_000
FINAL: Final = -1
"""The index of a finalizer."""
COLUMNS: Final = ("!id", "task", "state", ">parts", "progress", "??>rate", "?>left", "??>age")
_NEEDING: Final = (">part", "!job", "state", ">attempt", "?>progress", "??>records", "error")
_BAR: Final = 30


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """A parent and how its parts stand."""

    parent: ParentRecord
    parts: Parts
    final: JobRecord | None = None
    retrying: RetryingShape | None = None


async def look_at(store: Store, parent: ParentRecord) -> Family:
    """All parts of a parent, of which only the states are kept, and few of them as a whole."""
    parts = await read_parts(store, parent.id)
    final = None if parent.final is None else await store.job(parent.final)
    retrying = (await retrying_of(store, [parent])).get(parent.id)
    return Family(parent=parent, parts=parts, final=final, retrying=retrying)


async def every_part(store: Store, parent: int) -> list[PartRecord]:
    """All of them as a whole."""
    parts: list[PartRecord] = []
    while page := await store.parts(parent, start=len(parts), limit=_PAGE):
        parts += page
    return await with_errors(store, parts)


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


# -- drawing --------------------------------------------------------------------------------------------


def row(parent: ParentRecord, now: float, retrying: RetryingShape | None = None) -> Sequence[object]:
    """A parent as a line of a listing."""
    current, failed = progress([(now, parent)]), parent.dead + parent.cancelled
    return (
        str(parent.id),
        parent.task,
        parent_in_words(parent) + (f", {retrying.text}" if retrying else ""),
        f"{parent.succeeded:,}/{parent.total:,}" + (f", {failed:,} failed" if failed else ""),
        Text.assemble(bar(current.fraction, 10), f" {current.percent} %"),
        rate_in_words(parent, current),
        None if current.left is None else span(current.left),
        span(now - parent.created_at),
    )


def draw(family: Family, looks: Sequence[Look], width: int, most: int = 20) -> RenderableType:
    """Everything about a parent: the sheet, the strip of its parts, those that need attention, at most so
    many of them."""
    drawn: list[RenderableType] = [make_sheet(_lines(family, looks))]
    lines = strip(family.parts.states, width)
    if lines:
        drawn += [Text(), *lines]
    if family.parts.needing and most > 0:
        drawn += [Text(), _table(family, most)]
    advice = next_step(family.parent)
    if advice:
        drawn += [Text(), Text(advice)]
    return Group(*drawn)


def parent_in_words(parent: ParentRecord) -> str:
    """Its state, and whether it is being cancelled."""
    asked = parent.cancel_requested and parent.state not in FINISHED
    return f"{parent.state} (cancel requested)" if asked else str(parent.state)


def retrying_in_words(retrying: RetryingShape) -> str:
    """How many parts are tried again, and what the last one failed with [M4]."""
    return one_line(f"{retrying.text}, last: {retrying.error}" if retrying.error else retrying.text, 300)


def rate_in_words(parent: ParentRecord, current: Progress) -> str | None:
    """In records where its parts count any; the store does not know what the unit of a size is."""
    if parent.records and current.records_rate is not None:
        return f"{_number(current.records_rate)} records/s"
    if current.rate is None:
        return None
    return f"{_number(current.rate)} {'units' if current.unit == 'size' else 'parts'}/s"


def next_step(parent: ParentRecord) -> str | None:
    """What can be done about a parent that did not end well."""
    failed = parent.total - parent.succeeded
    if parent.state not in (State.DEAD, State.CANCELLED) or not failed:
        return None
    parts = "part that has" if failed == 1 else f"{failed:,} parts that have"
    return (
        f"`windlass parent redrive {parent.id}` runs the {parts} not succeeded, from where each has stopped"
    )


def _lines(family: Family, looks: Sequence[Look]) -> Iterator[tuple[str, str | Text]]:
    parent, now = family.parent, looks[-1][0]
    current = progress(looks)
    yield "parent", str(parent.id)
    yield "task", f"{one_line(parent.task)}, queue {one_line(parent.queue)}"
    yield "state", parent_in_words(parent)
    if parent.reason:
        yield "why", one_line(parent.reason)
    yield "progress", _progress(parent, current)
    failed = parent.dead + parent.cancelled
    yield (
        "parts",
        f"{parent.succeeded:,} of {parent.total:,} succeeded, {failed:,} failed, {parent.out:,} out",
    )
    if family.retrying is not None:
        yield "retrying", retrying_in_words(family.retrying)
    if parent.size or parent.records:
        yield "done", f"{parent.done:,} of {plural(parent.size, 'unit')}, {plural(parent.records, 'record')}"
    yield "parallel", parts_at_a_time(parent.parallel)
    yield "tolerated", f"{parent.tolerated:,} of its parts may fail"
    if parent.final is not None:
        state = "gone" if family.final is None else str(family.final.state)
        yield "finalizer", f"job {parent.final}, {state}"
    yield "split", local(parent.created_at, now)
    if parent.finished_at is not None:
        yield "finished", local(parent.finished_at, now)
        yield "took", span(parent.finished_at - parent.created_at)


def _progress(parent: ParentRecord, current: Progress) -> Text:
    line = Text.assemble(bar(current.fraction, _BAR), f" {current.percent} %")
    rate = rate_in_words(parent, current)
    if rate is not None:
        line.append(f", {rate}")
    if current.left is not None:
        line.append(f", about {span(current.left)} left")
    return line


def _table(family: Family, most: int) -> RenderableType:
    shown = family.parts.needing[:most]
    table = make_table(_NEEDING, map(_part_row, shown))
    more = sum(state in NEEDING for state in family.parts.states) - len(shown)
    return Group(table, Text(f"and {more:,} more")) if more > 0 else table


def _part_row(part: PartRecord) -> Sequence[object]:
    share = f"{min(part.done / part.size, 1):.0%}" if part.size > 0 else "–"
    error = None if part.error is None else one_line(part.error, 120)
    return part.index, part.job, state_in_words(part), part.attempt, share, f"{part.records:,}", error


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"
